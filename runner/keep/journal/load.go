package journal

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"crew/runner/decide/task"
)

const journalName = "journal.jsonl"

// loaded is the content of a journal as far as a run needs it.
type loaded struct {
	file    io.ReaderAt
	head    *record
	table   *table
	running map[identity]int64 // offsets of the starts in the latest run without an end
	tries   map[identity]tries
	scanned scanned

	before  uint32 // tasks that ended before that may be forgotten, in seconds since 1970
	settled flags  // of a task with whose result nothing remains to be done
	last    uint64 // the highest number of a task of a queue
	outEnd  int64  // end of the last output
	closed  bool   // the latest run ended normally
	run     int64  // offset of the latest evRun

	// of the latest evDoor

	door     string
	doorAt   int64 // its offset
	from, to uint64
	lacks    uint64 // how many of its tasks have not come

	// once all lines are read

	needed  int64 // bytes of lines that a compaction would keep, but for attempts of tasks that are not done
	outputs int64 // bytes of outputs that a compaction would keep

	Counts
}

// Counts are how many tasks of a journal stand how.
type Counts struct {
	Waiting int // of a queue: not done, and they do not run
	Begins  int // an attempt has begun, they are not done, and they do not run
	Running int // they run, or did when the latest run stopped
	Done    int
	Failed  int // how many of these failed
	Unshown int // how many are done but not shown
}

// load reads the first size bytes of the journal in f.
func (l *loaded) load(f io.ReaderAt, size int64, path string) (err error) {
	if l.head, err = readHead(f, path); err != nil {
		return err
	}
	const perTask = 700 // about how many bytes a task takes; the table grows if it is less
	l.file, l.table, l.last = f, newTable(filepath.Dir(path), int(size/perTask)), l.head.Last
	l.running, l.tries = map[identity]int64{}, map[identity]tries{}
	for ln := range l.scanned.lines(io.NewSectionReader(f, 0, size)) {
		l.apply(ln)
	}
	l.count()
	if err := cmp.Or(l.scanned.err, l.table.err); err != nil {
		l.table.close()
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// used reports whether a task has begun.
func (l *loaded) used() bool { return l.Begins+l.Running+l.Done > 0 }

// count counts the tasks, and what a compaction would keep of them.
func (l *loaded) count() {
	for e := range l.table.all {
		if !l.forgets(e) {
			l.needed += int64(e.lineSize) + int64(e.specSize)
			l.outputs += e.outputs
		}
		if e.has(done) {
			l.Done++
			if e.outcome.Failed() {
				l.Failed++
			}
			if !e.has(shown) {
				l.Unshown++
			}
			continue
		}
		_, runs := l.running[e.id]
		switch {
		case runs:
			l.Running++
			continue
		case e.spec > 0:
			l.Waiting++
		}
		if e.has(begun) {
			l.Begins++
		}
	}
}

func (l *loaded) loadFile(f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return l.load(f, st.Size(), f.Name())
}

// apply updates l by a line, which overrides earlier ones. A line that makes no sense
// although its checksum is right is ignored.
func (l *loaded) apply(ln line) {
	switch string(ln.event) {
	case evRun:
		l.undo()
		clear(l.running)
		l.closed, l.run = false, ln.off
	case evClosed:
		l.closed = true
	case evReleased:
		l.mark(ln.body, shown|logged)
	case evShown:
		l.mark(ln.body, shown)
	case evLogged:
		l.mark(ln.body, logged)
	case evUnlogged:
		l.table.clear(logged)
	case evWithdrawn:
		l.withdraw(identities(ln.body))
	case evDoor:
		l.undo()
		l.door, l.doorAt = strings.Trim(string(field(ln.body, "door")), `"`), ln.off
		l.from, l.to, l.lacks = number(ln.body, "from"), number(ln.body, "to"), number(ln.body, "tasks")
	default:
		if ln.id != (identity{}) {
			l.applyTask(ln)
		}
	}
}

func (l *loaded) applyTask(ln line) {
	if l.head.Queue > 0 {
		l.last = max(l.last, number(ln.body, "task"))
	}
	switch string(ln.event) {
	case evAccepted:
		l.accepted(ln)
	case evStarted:
		l.begin(ln)
	case evAttempt:
		l.attempt(ln)
	case evEnded:
		l.ended(ln)
	case evKnown:
		l.known(ln)
	}
}

// begin notes the start of an attempt.
func (l *loaded) begin(ln line) {
	l.running[ln.id] = ln.off
	e := l.table.add(ln.id)
	e.forget()
	e.attempts = max(e.attempts, max(1, small(ln.body, "attempt"))-1)
	e.flags |= begun
	e.at(ln)
}

// at notes the last line about a task that counts.
func (e *entry) at(ln line) { e.offset, e.lineSize = ln.off, int32(ln.n) }

// attempt notes the end of an attempt that did not finish its task.
func (l *loaded) attempt(ln line) {
	delete(l.running, ln.id)
	e := l.table.add(ln.id) // a compaction may have left this as the first line about the task
	if e.has(done) {
		return
	}
	if v := field(ln.body, stampName); v != nil {
		s := parseStamp(v)
		if s.Command != e.made.Command { // another command starts over with the retries
			e.failures = 0
			delete(l.tries, ln.id)
		}
		e.made = s
	}
	retried := field(ln.body, "retried") != nil && e.failures < math.MaxUint16
	var o task.Outcome
	replaced := o.UnmarshalText(field(ln.body, "outcome")) == nil && o.Replaced()
	if retried || replaced {
		e.attempts = max(e.attempts, small(ln.body, "attempt"))
	}
	if retried {
		e.failures++
	}
	if retried || replaced && field(ln.body, "unbegun") == nil {
		l.tried(ln)
	}
	e.at(ln)
}

// mark sets flags of the tasks that a body lists, if they are done.
func (l *loaded) mark(body []byte, f flags) {
	for id := range identities(body) {
		if e := l.table.find(id); e != nil && e.has(done) {
			e.flags |= f
		}
	}
}

// forget makes a done task one that is not done, because it runs again.
func (e *entry) forget() {
	if !e.has(done) {
		return
	}
	e.failures, e.outputs = 0, 0
	e.flags &^= done | shown | logged | streamed | begun
}

func (l *loaded) ended(ln line) {
	delete(l.running, ln.id)
	last := entry{id: ln.id, flags: done}
	last.at(ln)
	for name, v := range members(ln.body) {
		switch string(name) {
		case "outcome":
			_ = last.outcome.UnmarshalText(v)
		case "at":
			last.ended = parseMoment(v)
		case "attempt":
			last.attempts = parseSmall(v)
		case "duration":
			_ = last.duration.UnmarshalJSON(v)
		case evReleased:
			last.flags |= shown | logged
		case evShown:
			last.flags |= shown
		case evLogged:
			last.flags |= logged
		case "streamed":
			last.flags |= streamed
		case stampName:
			last.made = parseStamp(v)
		case "stdout", "stderr": // as in streams; a switch is slower unless all cases are constants
			p, _ := parseExtent(v)
			last.outputs += p.n
			l.outEnd = max(l.outEnd, p.off+p.n)
		}
	}
	if !isDone(last.outcome) {
		return
	}
	e := l.table.add(ln.id)
	e.forget()
	delete(l.tries, ln.id)
	if last.outcome == task.Skipped {
		last.duration = e.duration
	}
	last.spec, last.specSize, last.attempts = e.spec, e.specSize, max(e.attempts, last.attempts)
	last.flags |= e.flags & named
	*e = last
}

// known restores what removed lines said about a task.
func (l *loaded) known(ln line) {
	age := small(ln.body, "age")
	if age > maxAge {
		return
	}
	e := l.table.add(ln.id)
	if e.has(done) {
		return
	}
	e.flags, e.age, e.duration = e.flags&named, uint8(age), 0
	_ = e.duration.UnmarshalJSON(field(ln.body, "duration"))
	if field(ln.body, "failures") != nil {
		e.flags |= begun
		e.attempts, e.failures = small(ln.body, "attempt"), small(ln.body, "failures")
		if t, tried := l.tries[ln.id]; tried {
			l.tries[ln.id] = tries{t.lines, int(number(ln.body, "omitted"))}
		}
	}
	e.at(ln)
}

// accepted notes where the whole task of a queue is, as it was accepted or changed later.
func (l *loaded) accepted(ln line) {
	e := l.table.add(ln.id)
	e.spec, e.specSize = ln.off, int32(ln.n)
	if n := number(ln.body, "task"); l.lacks > 0 && l.from <= n && n <= l.to {
		l.lacks--
	}
	if e.flags &^= named; field(ln.body, namedName) != nil {
		e.flags |= named
	}
}

// forgets reports whether a compaction leaves out a task of a queue: it ended long
// ago, and nothing remains to be done with its result.
func (l *loaded) forgets(e *entry) bool {
	return l.before > 0 && e.has(done|l.settled) && e.ended < l.before
}

// gone reports whether a task of a queue has succeeded, nothing remains to be done with its
// result, and no other can come after it by its name. Nobody will ask what it was.
func (l *loaded) gone(e *entry) bool {
	return e.has(done|l.settled) && e.outcome.Succeeded() && !e.has(named)
}

// undo forgets the latest evDoor and its tasks unless all of them have come: their numbers may be given again.
func (l *loaded) undo() {
	if l.lacks == 0 {
		return
	}
	var ids []identity
	for e := range l.table.all {
		if n := numberOf(e.id); l.from <= n && n <= l.to {
			ids = append(ids, e.id)
		}
	}
	l.withdraw(slices.Values(ids))
	l.door, l.doorAt, l.lacks = "", 0, 0
}

// withdraw forgets tasks.
func (l *loaded) withdraw(ids iter.Seq[identity]) {
	for id := range ids {
		if e := l.table.find(id); e != nil && e.spec > 0 && !e.has(done) {
			e.spec, e.specSize = 0, 0
			delete(l.tries, id)
		}
	}
}

// number returns a member that is a whole number; 0 if there is none.
func number(body []byte, name string) uint64 { return parseNumber(field(body, name)) }

func parseNumber(v []byte) uint64 {
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// small is number for one that is at most 65535.
func small(body []byte, name string) uint16 { return parseSmall(field(body, name)) }

func parseSmall(v []byte) uint16 { return uint16(min(parseNumber(v), math.MaxUint16)) }

// parseMoment parses a time to the second; 0 means unknown.
func parseMoment(v []byte) uint32 {
	at, err := time.Parse(time.RFC3339Nano, string(v))
	if err != nil {
		return 0
	}
	return uint32(at.Unix())
}

// tries are the attempts of a task that failed or, once begun, were lost since it was
// last done, if it is not done.
type tries struct {
	lines   []int64 // the offsets of those that are kept; see task.KeepAttempt
	omitted int     // the others
}

// tried notes an attempt. Its line is kept until the task is done.
func (l *loaded) tried(ln line) {
	t := l.tries[ln.id]
	var full bool
	if t.lines, _, full = task.KeepAttempt(t.lines, ln.off); full {
		t.omitted++
	}
	l.tries[ln.id] = t
}

// restoreTries sets what is known of the earlier attempts of t. What they wrote is not.
func (l *loaded) restoreTries(t *task.Task) {
	known, tried := l.tries[t.Identity]
	if !tried {
		return
	}
	t.Known = &task.Attempts{Omitted: known.omitted}
	for _, off := range known.lines {
		rec, err := readRecord(l.file, off)
		if err != nil {
			t.Known.Omitted++
			continue
		}
		t.Known.Before = append(t.Known.Before, earlier(t, &rec.Facts))
	}
}
