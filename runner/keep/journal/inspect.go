package journal

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"crew/runner/decide/task"
)

// Dump writes the valid lines of a directory's journal to w, one at a time, and returns a summary of its
// runs. The lines have no checksums and, in a queue, no environments and task specifications. If a task has
// begun again after a line that says how it ended, that line is void and gets the member "again".
//
// A run may be writing the journal. If lines are damaged, Dump writes all valid ones and then
// returns an error. If there is no journal, the error is fs.ErrNotExist.
func Dump(dir string, w io.Writer) (s *Summary, err error) {
	before := lockHolderOf(dir)
	err = withContents(dir, func(l *contents) error {
		s = l.summary()
		s.Process = cmp.Or(before, lockHolderOf(dir)) // a run may have ended or begun in the meantime
		return l.dump(w)
	})
	return s, err
}

// withContents loads a directory's journal, which a run may be writing, and passes it to use.
func withContents(dir string, use func(*contents) error) error {
	f, err := os.Open(filepath.Join(dir, journalName))
	if err != nil {
		return err
	}
	defer f.Close()
	l := &contents{}
	if err := l.loadFile(f); err != nil {
		return err
	}
	defer l.table.close()
	return use(l)
}

// dump writes the lines that were loaded. Later ones may be incomplete, which would look like
// damage.
func (l *contents) dump(w io.Writer) error {
	var text []byte
	var s scanner
	for ln := range s.lines(io.NewSectionReader(l.file, 0, l.scan.end)) {
		body, end := ln.body, "}\n"
		switch ev := string(ln.event); ev {
		case evAccepted:
			body, _, _ = bytes.Cut(body, []byte(envMark))
		case evAttempt, evEnded:
			e := l.table.find(ln.id)
			if field(body, "retried") == nil && (e == nil || e.offset != ln.off || e.has(done) != (ev == evEnded)) {
				end = `,"again":true}` + "\n"
			}
		}
		text = append(append(text[:0], body...), end...)
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	err := cmp.Or(s.err, l.table.err)
	if damage := s.damage(); err == nil && damage != "" {
		err = errors.New(filepath.Join(l.table.dir, journalName) + ": " + damage)
	}
	return err
}

// EndedTasks returns the records of the last n wanted ends of tasks, the latest last. In a queue these are of
// the tasks that it still remembers, otherwise of this run. It reads the journal, so it is slow if that is
// long, and calls wait for one another.
func (j *Journal) EndedTasks(n int, wanted func(id uint64, o task.Outcome) bool) []task.EndedTask {
	j.readMu.Lock()
	defer j.readMu.Unlock()
	j.Idle()                             // write pending lines, so that they are found
	f, err := j.openFile(journalName, 0) // j.file may be replaced in the meantime
	if err != nil {
		return nil
	}
	defer f.Close()
	return ReadEnded(io.NewSectionReader(f, j.runOffset, math.MaxInt64-j.runOffset), j.out.file, n, wanted)
}

// ReadEnded is EndedTasks for lines of a journal, with its file of outputs.
func ReadEnded(lines io.Reader, outputs io.ReaderAt, n int, wanted func(id uint64, o task.Outcome) bool) (list []task.EndedTask) {
	var s scanner
	var last [][]byte
	for ln := range s.lines(lines) {
		var o task.Outcome
		if string(ln.event) == evEnded && o.UnmarshalText(field(ln.body, "outcome")) == nil && isDone(o) && wanted(uintField(ln.body, "task"), o) {
			last = append(last, bytes.Clone(ln.body))
			last = last[max(0, len(last)-n):]
		}
	}
	for _, body := range last {
		r, _ := parse(body)
		p := task.EndedTask{Facts: r.Facts, Note: r.Note, Kept: !r.Streamed && !r.Dropped}
		if p.Kept {
			p.Outputs = [2]task.Live{r.Stdout.In(outputs), r.Stderr.In(outputs)}
		}
		list = append(list, p)
	}
	return list
}

// Summary describes the state of a journal's runs. The lines of the journal say how each task ended.
type Summary struct {
	Command Command
	Begun   time.Time // start of the latest run
	Process string    // process ID of the run that is writing the journal; empty if there is none
	Closed  bool      // the latest run ended normally
	Early   bool      // it did not run all of its tasks

	Counts
	Before      int          // number of tasks that were done when the latest run began
	Interrupted []task.Facts // up to MaxMentioned tasks that are running, or were when the run stopped

	JournalBytes, OutputBytes int64
	Damage                    string // description of damaged lines; empty if there are none
}

// MaxMentioned is the maximum number of tasks that a Summary or Missing lists.
const MaxMentioned = 10

func (l *contents) summary() *Summary {
	s := &Summary{
		Command: Command{Line: string(l.head.Command), Dir: string(l.head.Dir)}, Begun: l.run.At, Before: l.run.Done, Closed: l.closed != nil, Counts: l.Counts,
		JournalBytes: l.scan.end, OutputBytes: l.outputs, Damage: l.scan.damage(),
	}
	if s.Closed {
		s.Early = l.closed.Left > 0 || l.closed.Unread
	}
	running := slices.Sorted(maps.Values(l.running))
	for _, off := range running[:min(len(running), MaxMentioned)] {
		r, _ := readRecord(l.file, off)
		s.Interrupted = append(s.Interrupted, r.Facts)
	}
	return s
}

// lockHolderOf returns the ID of the process that holds the lock of dir, or "" if it is not locked.
func lockHolderOf(dir string) string {
	f, err := os.Open(filepath.Join(dir, lockName))
	if err != nil {
		return ""
	}
	defer f.Close()
	pid, held := lockHolder(f)
	if !held {
		return ""
	}
	return strconv.Itoa(pid)
}
