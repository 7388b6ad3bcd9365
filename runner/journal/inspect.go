package journal

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"crew/runner/task"
)

// Dump writes the good lines of a directory's journal to w, without their checksums,
// and of a queue without the environments and the specifications of its tasks.
// A run may be writing the journal meanwhile. If lines are damaged, Dump writes all
// good ones and then returns an error. Without a journal the error is fs.ErrNotExist.
func Dump(dir string, w io.Writer) error {
	f, err := os.Open(filepath.Join(dir, journalName))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := readHead(f, f.Name()); err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 64<<10)
	// What is written from now on may be read in part, which would look like damage.
	var s scanned
	for ln := range s.lines(io.NewSectionReader(f, 0, st.Size())) {
		body := ln.body
		switch event(body) {
		case evEnvironment:
			continue
		case evAccepted, evChanged:
			body, _, _ = bytes.Cut(body, []byte(envMark))
		}
		_, _ = out.Write(body)
		_, _ = out.WriteString("}\n")
	}
	err = cmp.Or(s.err, out.Flush())
	if err == nil && s.damage.Lines > 0 {
		err = fmt.Errorf("%s: %v", f.Name(), s.damage)
	}
	return err
}

// IsOf reports whether the journal of a directory is of a command, or cannot be read.
func IsOf(dir string, c Command) bool {
	f, err := os.Open(filepath.Join(dir, journalName))
	if err != nil {
		return true
	}
	defer f.Close()
	head, err := readHead(f, f.Name())
	return err != nil || c.began(head)
}

// Past returns what is recorded of tasks that have ended, as far as it is known: in a
// queue of any that is not forgotten, otherwise of those of this run. It reads the
// journal, so it takes the longer the longer that is; calls wait for one another.
func (j *Journal) Past(ids ...uint64) map[uint64]task.Past {
	j.reading.Lock()
	defer j.reading.Unlock()
	j.Idle() // writes what it is to find
	found, wanted := map[uint64]task.Past{}, map[uint64]bool{}
	for _, id := range ids {
		wanted[id] = true
	}
	f, err := openFile(filepath.Join(j.cfg.Dir, journalName), 0, j.cfg.Queue != nil) // j.file may be replaced meanwhile
	if err != nil {
		return nil
	}
	defer f.Close()
	var s scanned
	for ln := range s.lines(io.NewSectionReader(f, j.began, math.MaxInt64-j.began)) {
		if len(found) == len(ids) {
			break
		}
		if event(ln.body) != evEnded {
			continue
		}
		id := number(ln.body, "task")
		if !wanted[id] {
			continue
		}
		if r, err := parse(ln.body); err == nil && isDone(r.Outcome) {
			p := task.Past{Facts: r.Facts, Note: r.Note, Kept: !r.Streamed && !r.Dropped}
			if p.Kept {
				p.Outputs = [2]task.Live{j.out.find(r.Stdout), j.out.find(r.Stderr)}
			}
			found[id] = p
		}
	}
	return found
}

// Latest returns what is recorded of the tasks that ended last, at most n, or only of those
// of them that failed, the latest last, without their outputs. Like Past it reads the journal.
func (j *Journal) Latest(n int, failed bool) []task.Past {
	j.reading.Lock()
	defer j.reading.Unlock()
	j.Idle()
	f, err := openFile(filepath.Join(j.cfg.Dir, journalName), 0, j.cfg.Queue != nil)
	if err != nil {
		return nil
	}
	defer f.Close()
	var offs []int64
	var s scanned
	for ln := range s.lines(io.NewSectionReader(f, j.began, math.MaxInt64-j.began)) {
		var o task.Outcome
		if event(ln.body) != evEnded || o.UnmarshalText(field(ln.body, "outcome")) != nil || failed && !o.Failed() {
			continue
		}
		if offs = append(offs, j.began+ln.off); len(offs) == 2*n {
			offs = append(offs[:0], offs[n:]...)
		}
	}
	var list []task.Past
	for _, off := range offs[max(0, len(offs)-n):] {
		if r, _, err := readRecord(f, off); err == nil {
			list = append(list, task.Past{Facts: r.Facts, Note: r.Note})
		}
	}
	return list
}

// Summary describes a journal. Times and attempts are of the tasks that are done, and
// times of their last attempts.
type Summary struct {
	Command Command
	Begun   time.Time // when the latest run began
	Until   time.Time // the last that is known of it: when it ended, if it is closed
	Process string    // ID of the process of a run that goes on now; empty if none
	Closed  bool      // the latest run ended normally

	Waiting   int    // tasks of a queue that are not done and do not run
	Total     Totals // of all tasks that are done
	ByOutcome [task.Outcomes]int
	Retries   int // attempts after the first
	Before    int // tasks that were done when the latest run began
	Unshown   int // tasks that are done but not shown
	Begins    int // tasks that have begun, do not run, and are not done

	Failed      []task.Facts // the first few tasks that failed
	Slowest     []task.Facts // the few that ran longest, the slowest first
	Interrupted []task.Facts // a few of the tasks that are running, or were when the run stopped
	Running     int          // number of the latter

	Keys     []KeyTotals // the few that took longest in all; empty if no task has a key
	MoreKeys int         // keys that are not in Keys; if ManyKeys at least so many
	ManyKeys bool        // there are too many keys to count

	JournalBytes, OutputBytes int64
	Damage                    Damage
}

// Totals are about several tasks.
type Totals struct {
	Tasks, Failed      int
	Time, User, System time.Duration
}

// KeyTotals are about the tasks of a key.
type KeyTotals struct {
	Key string
	Totals
}

const (
	maxMentions = 10    // tasks or keys that are mentioned in a list
	maxKeys     = 20000 // keys that are told apart
)

// Summarize reads the journal of a directory. A run may be writing it meanwhile.
// Without a journal the error is fs.ErrNotExist.
func Summarize(dir string) (*Summary, error) {
	for {
		before := process(dir)
		s, err := summarize(dir)
		if err != nil {
			return nil, err
		}
		if s.Process = process(dir); s.Process == before {
			return s, nil
		}
		// A run began or ended meanwhile.
	}
}

func summarize(dir string) (*Summary, error) {
	f, err := os.Open(filepath.Join(dir, journalName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l, err := loadFile(f)
	if err != nil {
		return nil, err
	}
	defer l.table.close()
	c := &counter{loaded: l, last: l.run, keys: map[string]*Totals{}, Summary: Summary{
		Command: Command{Line: string(l.head.Command), Dir: string(l.head.Dir)}, Closed: l.closed, Running: len(l.running),
		JournalBytes: l.scanned.end, OutputBytes: l.outputs, Damage: l.scanned.damage,
		Waiting: max(0, l.waiting-len(l.running)),
	}}
	var again scanned
	for ln := range again.lines(io.NewSectionReader(f, 0, l.scanned.end)) {
		c.count(ln)
	}
	if again.err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Name(), again.err)
	}
	c.complete()
	s := c.Summary // alone: the rest of c is large
	return &s, l.table.err
}

// counter makes a Summary of a loaded journal. The lines are read once more, because
// only then it is known which of them count.
type counter struct {
	*loaded
	Summary

	last            int64 // offset of the last line that has a time
	failed, slowest []ranked
	keys            map[string]*Totals // by key as JSON
	others          Totals             // of the keys beyond maxKeys
}

// ranked is a line that may be mentioned, the one with the lowest rank first.
type ranked struct{ rank, off int64 }

// insert inserts m into a list if it is among the first few of it.
func insert(list []ranked, m ranked) []ranked {
	i, _ := slices.BinarySearchFunc(list, m, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.off, b.off))
	})
	if i == maxMentions {
		return list
	}
	list = slices.Insert(list, i, m)
	return list[:min(len(list), maxMentions)]
}

// count counts a line if it is the end of a task that is done.
func (c *counter) count(ln line) {
	switch event(ln.body) {
	case evStarted, evAttempt, evClosed:
		c.last = ln.off
		return
	case evEnded:
		c.last = ln.off
	default:
		return
	}
	e := c.table.find(ln.id)
	if e == nil || !e.has(done) || e.offset() != ln.off {
		return
	}
	one, key := Totals{Tasks: 1}, ""
	seq, attempt := int64(0), 1
	for name, v := range members(ln.body) {
		switch string(name) {
		case "task":
			seq, _ = strconv.ParseInt(string(v), 10, 64)
		case "attempt":
			attempt, _ = strconv.Atoi(string(v))
		case "duration":
			one.Time = parseSeconds(v)
		case "user":
			one.User = parseSeconds(v)
		case "system":
			one.System = parseSeconds(v)
		case "key":
			key = string(v)
		}
	}
	if e.outcome.Failed() {
		one.Failed = 1
		c.failed = insert(c.failed, ranked{seq, ln.off})
	}
	if e.outcome != task.Skipped {
		c.slowest = insert(c.slowest, ranked{-int64(one.Time), ln.off})
	}
	c.Total.add(&one)
	c.ByOutcome[e.outcome]++
	c.Retries += max(0, attempt-1)
	if !e.has(shown) {
		c.Unshown++
	}
	t := c.keys[key]
	switch {
	case t != nil:
	case len(c.keys) < maxKeys:
		t = new(Totals)
		c.keys[key] = t
	default:
		t = &c.others
	}
	t.add(&one)
}

func (t *Totals) add(u *Totals) {
	t.Tasks += u.Tasks
	t.Failed += u.Failed
	t.Time += u.Time
	t.User += u.User
	t.System += u.System
}

// complete fills in what can be said when all lines have been counted.
func (c *counter) complete() {
	if run, _, err := readRecord(c.file, c.run); err == nil {
		c.Begun, c.Before = run.At, run.Done
	}
	if last, _, err := readRecord(c.file, c.last); err == nil {
		c.Until = last.At
		if last.At.IsZero() {
			c.Until = last.Start.Add(time.Duration(last.Duration))
		}
	}
	for e := range c.table.all {
		if e.has(begun) && !e.has(done) {
			c.Begins++
		}
	}
	c.Begins -= len(c.running)
	var running []ranked
	for _, off := range c.running {
		running = insert(running, ranked{off, off})
	}
	c.Failed, c.Slowest, c.Interrupted = c.mention(c.failed), c.mention(c.slowest), c.mention(running)

	if _, none := c.keys[""]; none && len(c.keys) == 1 {
		return
	}
	keys := slices.SortedFunc(maps.Keys(c.keys), func(a, b string) int {
		return cmp.Or(-cmp.Compare(c.keys[a].Time, c.keys[b].Time), cmp.Compare(a, b))
	})
	c.ManyKeys = c.others.Tasks > 0
	for i, key := range keys {
		if i == maxMentions {
			c.MoreKeys = len(keys) - i
			break
		}
		text := key
		if !strings.HasPrefix(text, `{"`) { // as only the form of what is not UTF-8 does
			text = `"` + text + `"`
		}
		var name task.Bytes
		_ = name.UnmarshalJSON([]byte(text))
		c.Keys = append(c.Keys, KeyTotals{string(name), *c.keys[key]})
	}
}

// mention returns what the lines of a list are about.
func (c *counter) mention(list []ranked) (mentions []task.Facts) {
	for _, m := range list {
		mentions = append(mentions, mention(c.file, m.off))
	}
	return mentions
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

// mention returns what is known of the task that the line at off is about.
func mention(f io.ReaderAt, off int64) task.Facts {
	r, _, err := readRecord(f, off)
	if err != nil {
		return task.Facts{}
	}
	return r.Facts
}
