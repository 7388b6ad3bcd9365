package journal

import (
	"bufio"
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

// Dump writes the good lines of a directory's journal to w, without their checksums,
// and of a queue without the environments and the specifications of its tasks, and returns
// what is known of the runs. What a line says of how a task ended is void, and the line
// has "again", if the task has begun again since.
// A run may be writing the journal meanwhile. If lines are damaged, Dump writes all
// good ones and then returns an error, too. Without a journal the error is fs.ErrNotExist.
func Dump(dir string, w io.Writer) (*Summary, error) {
	var s *Summary
	for again := true; again; {
		before := process(dir)
		err := look(dir, func(l *loaded) error {
			now := process(dir)
			if again = now != before; again { // a run began or ended meanwhile
				return nil
			}
			s = l.summary()
			s.Process = now
			return l.dump(w)
		})
		if err != nil {
			return s, err
		}
	}
	return s, nil
}

// look loads the journal of a directory, which a run may be writing, for use.
func look(dir string, use func(*loaded) error) error {
	f, err := os.Open(filepath.Join(dir, journalName))
	if err != nil {
		return err
	}
	defer f.Close()
	l := &loaded{}
	if err := l.loadFile(f); err != nil {
		return err
	}
	defer l.table.close()
	return use(l)
}

// dump writes the lines. What has been written since they were loaded may be read in part,
// which would look like damage.
func (l *loaded) dump(w io.Writer) error {
	out := bufio.NewWriterSize(w, 64<<10)
	var s scanned
	for ln := range s.lines(io.NewSectionReader(l.file, 0, l.scanned.end)) {
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
		_, _ = out.Write(body)
		if _, err := out.WriteString(end); err != nil {
			return err
		}
	}
	err := cmp.Or(s.err, l.table.err, out.Flush())
	if damage := s.damage(); err == nil && damage != "" {
		err = errors.New(filepath.Join(l.table.dir, journalName) + ": " + damage)
	}
	return err
}

// BelongsTo reports whether the journal of a directory is of a command, or cannot be read.
func BelongsTo(dir string, c Command) bool {
	f, err := os.Open(filepath.Join(dir, journalName))
	if err != nil {
		return true
	}
	defer f.Close()
	head, err := readHead(f, f.Name())
	return err != nil || c.began(head)
}

// EndedTasks returns what is recorded of tasks that have ended, as far as it is known: in a
// queue of any that is not forgotten, otherwise of those of this run. It reads the
// journal, so it takes the longer the longer that is; calls wait for one another.
func (j *Journal) EndedTasks(ids ...uint64) map[uint64]task.Past {
	found := map[uint64]task.Past{}
	for body := range j.ends {
		if id := number(body, "task"); slices.Contains(ids, id) {
			if p, ok := j.pastOf(body); ok {
				found[id] = p
			}
		}
		if len(found) == len(ids) {
			break
		}
	}
	return found
}

// pastOf returns what a line says of a task that has ended.
func (j *Journal) pastOf(body []byte) (p task.Past, ok bool) {
	r, err := parse(body)
	if err != nil || !isDone(r.Outcome) {
		return p, false
	}
	p = task.Past{Facts: r.Facts, Note: r.Note, Kept: !r.Streamed && !r.Dropped}
	if p.Kept {
		p.Outputs = [2]task.Live{j.out.find(r.Stdout), j.out.find(r.Stderr)}
	}
	return p, true
}

// LatestEnded returns what is recorded of the tasks that ended last, at most n, or only of those
// of them that failed, the latest last. Like EndedTasks it reads the journal.
func (j *Journal) LatestEnded(n int, failed bool) (list []task.Past) {
	var last [][]byte
	for body := range j.ends {
		var o task.Outcome
		if o.UnmarshalText(field(body, "outcome")) != nil || failed && !o.Failed() {
			continue
		}
		last = append(last, bytes.Clone(body))
		last = last[max(0, len(last)-n):]
	}
	for _, body := range last {
		if p, ok := j.pastOf(body); ok {
			list = append(list, p)
		}
	}
	return list
}

// ends is an iter.Seq of the lines about tasks that have ended, as far as they count for EndedTasks.
func (j *Journal) ends(yield func(body []byte) bool) {
	j.reading.Lock()
	defer j.reading.Unlock()
	j.Idle()                             // writes what is to be found
	f, err := j.dir.open(journalName, 0) // j.file may be replaced meanwhile
	if err != nil {
		return
	}
	defer f.Close()
	var s scanned
	for ln := range s.lines(io.NewSectionReader(f, j.began, math.MaxInt64-j.began)) {
		if string(ln.event) == evEnded && !yield(ln.body) {
			return
		}
	}
}

// Summary says how the runs of a journal stand. What became of their tasks is a matter of
// its lines.
type Summary struct {
	Command Command
	Begun   time.Time // when the latest run began
	Process string    // ID of the process of a run that goes on now; empty if none
	Closed  bool      // the latest run ended normally

	Counts
	Before      int          // tasks that were done when the latest run began
	Interrupted []task.Facts // the first few of those that run, or did when the run stopped

	JournalBytes, OutputBytes int64
	Damage                    string // where there is some; "" for nowhere
}

// MaxMentioned is how many tasks a Summary mentions.
const MaxMentioned = 10

func (l *loaded) summary() *Summary {
	s := &Summary{
		Command: Command{Line: string(l.head.Command), Dir: string(l.head.Dir)}, Closed: l.closed, Counts: l.Counts,
		JournalBytes: l.scanned.end, OutputBytes: l.outputs, Damage: l.scanned.damage(),
	}
	if run, err := readRecord(l.file, l.run); err == nil {
		s.Begun, s.Before = run.At, run.Done
	}
	running := slices.Sorted(maps.Values(l.running))
	for _, off := range running[:min(len(running), MaxMentioned)] {
		r, _ := readRecord(l.file, off)
		s.Interrupted = append(s.Interrupted, r.Facts)
	}
	return s
}

// process returns the ID of the process that holds the lock of dir, or "".
func process(dir string) string {
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
