package journal

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"crew/runner/decide/task"
)

const journalName = "journal.jsonl"

// contents holds the facts of a journal that a run needs.
type contents struct {
	file    io.ReaderAt
	head    *record
	table   *table
	running map[identity]int64 // offsets of starts in the latest run that have no end
	prior   map[identity]priorAttempts
	scan    scanner

	expireBefore uint32  // ended tasks older than this may be forgotten; seconds since 1970
	settledFlags flags   // flags of a result that needs nothing more
	last         uint64  // highest task number of a queue
	outEnd       int64   // end of the last output
	closed       *record // the end of the latest run; nil if it did not end normally
	run          *record
	runOffset    int64 // offset of run, the latest evRun

	deliveries             // those that are complete
	undelivered []identity // tasks that count only if their delivery is complete

	// set after all lines were read

	needed  int64 // bytes of lines that a compaction would keep, without attempts of unfinished tasks
	outputs int64 // bytes of outputs that a compaction would keep

	Counts
}

// Counts says how many tasks of a journal are in each state.
type Counts struct {
	Waiting int // queued, not done and not running
	Begins  int // begun, not done and not running
	Running int // running now, or when the latest run stopped
	Done    int
	Failed  int // how many of Done failed
	Unshown int // how many of Done were not shown
}

// load reads the first size bytes of f, the journal at path.
func (l *contents) load(f io.ReaderAt, size int64, path string) (err error) {
	if l.head, err = readHead(f, path); err != nil {
		return err
	}
	const perTask = 700 // typical bytes per task; if a task takes less, the table grows
	l.file, l.table, l.last = f, newTable(filepath.Dir(path), int(size/perTask)), l.head.Last
	l.running, l.prior, l.run = map[identity]int64{}, map[identity]priorAttempts{}, &record{}
	for ln := range l.scan.lines(io.NewSectionReader(f, 0, size)) {
		l.apply(ln)
	}
	l.withdrawUndelivered()
	l.count()
	if err := cmp.Or(l.scan.err, l.table.err); err != nil {
		l.table.close()
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// used reports whether any task has begun.
func (l *contents) used() bool { return l.Begins+l.Running+l.Done > 0 }

// count counts the tasks, and the bytes that a compaction would keep.
func (l *contents) count() {
	for e := range l.table.all {
		if !l.expired(e) {
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

func (l *contents) loadFile(f *os.File) error {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	return l.load(f, size, f.Name())
}

// apply updates l from a line, which overrides earlier lines. It ignores lines that make no sense
// although their checksum is right.
func (l *contents) apply(ln line) {
	switch string(ln.event) {
	case evRun:
		l.withdrawUndelivered()
		clear(l.running)
		l.closed, l.runOffset = nil, ln.off
		l.run, _ = parse(ln.body)
	case evClosed:
		l.closed, _ = parse(ln.body)
	case evShown:
		l.setFlags(ln.body, shown)
	case evLogged:
		l.setFlags(ln.body, logged)
	case evUnlogged:
		l.table.clearFlags(logged)
	case evWithdrawn:
		l.withdraw(listedIDs(ln.body))
	case evDelivery:
		id := string(field(ln.body, "door"))
		if string(field(ln.body, "tasks")) == strconv.Itoa(len(l.undelivered)) {
			l.undelivered = nil
			l.deliveries.add(id)
		} else {
			l.deliveries = slices.DeleteFunc(l.deliveries, func(d string) bool { return d == id })
		}
		l.withdrawUndelivered()
	default:
		if ln.id != (identity{}) {
			l.applyTask(ln)
		}
	}
}

func (l *contents) applyTask(ln line) {
	if l.head.Queue > 0 {
		l.last = max(l.last, uintField(ln.body, "task"))
	}
	switch string(ln.event) {
	case evAccepted:
		l.applyAccepted(ln)
	case evStarted:
		l.applyStarted(ln)
	case evAttempt:
		l.applyAttempt(ln)
	case evEnded:
		l.applyEnded(ln)
	case evKnown:
		l.applyKnown(ln)
	}
}

// applyStarted notes the start of an attempt.
func (l *contents) applyStarted(ln line) {
	l.running[ln.id] = ln.off
	e := l.table.add(ln.id)
	e.markUndone()
	e.setBegun(ln)
}

// setBegun makes ln, the line of the latest attempt, the line that describes the task.
func (e *entry) setBegun(ln line) {
	e.attempts = max(e.attempts, max(1, uint16Field(ln.body, "attempt"))-1)
	e.flags |= begun
	e.setLine(ln)
}

// setLine makes ln the line that describes the task.
func (e *entry) setLine(ln line) { e.offset, e.lineSize = ln.off, int32(ln.n) }

// applyAttempt notes the end of an attempt that did not finish its task.
func (l *contents) applyAttempt(ln line) {
	delete(l.running, ln.id)
	e := l.table.add(ln.id) // after a compaction this may be the first line about the task
	if e.has(done) {
		return
	}
	if v := field(ln.body, stampName); v != nil {
		s := parseStamp(v)
		if s.Command != e.made.Command { // a changed command gets all its retries
			delete(l.prior, ln.id)
		}
		e.made = s
	}
	retried := field(ln.body, "retried") != nil
	var o task.Outcome
	replaced := o.UnmarshalText(field(ln.body, "outcome")) == nil && o.Replaced()
	if retried || replaced && field(ln.body, "unbegun") == nil {
		e.attempts = max(e.attempts, uint16Field(ln.body, "attempt"))
		l.notePrior(ln, retried)
	}
	e.setBegun(ln)
}

// setFlags sets flags of the done tasks that a body lists.
func (l *contents) setFlags(body []byte, f flags) {
	for _, id := range listedIDs(body) {
		if e := l.table.find(id); e != nil && e.has(done) {
			e.flags |= f
		}
	}
}

// markUndone makes e an unfinished task, because the task runs again.
func (e *entry) markUndone() {
	if !e.has(done) {
		return
	}
	e.outputs = 0
	e.flags &^= done | shown | logged | streamed | begun
}

func (l *contents) applyEnded(ln line) {
	delete(l.running, ln.id)
	last := entry{id: ln.id, flags: done}
	last.setLine(ln)
	for name, v := range members(ln.body) {
		switch string(name) {
		case "outcome":
			_ = last.outcome.UnmarshalText(v)
		case "at":
			last.ended = parseUnixTime(v)
		case "attempt":
			last.attempts = parseUint16(v)
		case "duration":
			_ = last.duration.UnmarshalJSON(v)
		case evShown:
			last.flags |= shown
		case evLogged:
			last.flags |= logged
		case "streamed":
			last.flags |= streamed
		case stampName:
			last.made = parseStamp(v)
		case "unfinished":
			l.applyAttempt(ln)
			return
		case "stdout", "stderr": // keep in step with streams: a switch with only constant cases is faster
			p, _ := parseExtent(v)
			last.outputs += p.n
			l.outEnd = max(l.outEnd, p.off+p.n)
		}
	}
	if !isDone(last.outcome) {
		return
	}
	e := l.table.add(ln.id)
	e.markUndone()
	delete(l.prior, ln.id)
	if last.outcome == task.Skipped {
		last.duration = e.duration
	}
	last.spec, last.specSize, last.attempts = e.spec, e.specSize, max(e.attempts, last.attempts)
	last.flags |= e.flags & named
	*e = last
}

// applyKnown restores the duration of a task from a removed line.
func (l *contents) applyKnown(ln line) {
	e := l.table.add(ln.id)
	e.age, e.duration = uint8(uint16Field(ln.body, "age")), 0
	_ = e.duration.UnmarshalJSON(field(ln.body, "duration"))
	if p, tried := l.prior[ln.id]; tried {
		l.prior[ln.id] = p.counted(ln.body) // earlier versions wrote the numbers here
	}
	e.setLine(ln)
}

// applyAccepted notes where a task of a queue is stored, as accepted or last changed.
func (l *contents) applyAccepted(ln line) {
	e := l.table.add(ln.id)
	e.spec, e.specSize = ln.off, int32(ln.n)
	if field(ln.body, deliveredName) != nil {
		l.undelivered = append(l.undelivered, ln.id)
	}
	if e.flags &^= named; field(ln.body, namedName) != nil {
		e.flags |= named
	}
}

// expired reports whether a compaction may drop all lines about a task of a queue: it ended long ago,
// and its result needs nothing more, or an earlier compaction has dropped the task.
func (l *contents) expired(e *entry) bool {
	return e.has(done) && e.ended < l.expireBefore && (e.spec == 0 || e.has(l.settledFlags))
}

// droppable reports whether a task of a queue has succeeded, its result needs nothing more, and no
// other task can name it as a dependency. A compaction then keeps its result but not the whole task.
func (l *contents) droppable(e *entry) bool {
	return e.has(done|l.settledFlags) && e.outcome.Succeeded() && !e.has(named)
}

// withdrawUndelivered forgets the tasks of an incomplete delivery.
func (l *contents) withdrawUndelivered() {
	l.withdraw(l.undelivered)
	l.undelivered = nil
}

// withdraw forgets tasks that wait.
func (l *contents) withdraw(ids []identity) {
	for _, id := range ids {
		if e := l.table.find(id); e != nil && e.spec > 0 && !e.has(done) {
			e.spec, e.specSize = 0, 0
			delete(l.prior, id)
		}
	}
}

// uintField returns the value of an unsigned integer member, or 0 if it is missing or invalid.
func uintField(body []byte, name string) uint64 { return parseUint(field(body, name)) }

func parseUint(v []byte) uint64 {
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// uint16Field is like uintField, but returns at most 65535.
func uint16Field(body []byte, name string) uint16 { return parseUint16(field(body, name)) }

func parseUint16(v []byte) uint16 { return uint16(min(parseUint(v), math.MaxUint16)) }

// parseUnixTime returns a time in seconds since 1970.
func parseUnixTime(v []byte) uint32 {
	at, _ := time.Parse(time.RFC3339Nano, string(v))
	return uint32(at.Unix())
}

// priorAttempts describes the attempts of an unfinished task since it was last done: failed ones, and
// ones that were lost after they had begun.
type priorAttempts struct {
	offsets  []int64 // lines of the attempts that are kept; see task.AppendAttempt
	failures int     // how many attempts used up a retry
	omitted  int     // attempts that are not kept
}

// notePrior adds an attempt to the prior ones. Compaction keeps its line until the task is done.
func (l *contents) notePrior(ln line, retried bool) {
	p := l.prior[ln.id]
	var out int64
	if p.offsets, out = task.AppendAttempt(p.offsets, ln.off); out > 0 {
		p.omitted++
	}
	if retried {
		p.failures++
	}
	l.prior[ln.id] = p.counted(ln.body)
}

// counted returns p with the numbers that a compaction has added to a body.
func (p priorAttempts) counted(body []byte) priorAttempts {
	if n := uintField(body, "omitted"); n > 0 {
		p.omitted, p.failures = int(n), int(uintField(body, "failures"))
	}
	return p
}

// appendCounts adds the numbers to the line of the last attempt, unless it has them.
func (p priorAttempts) appendCounts(ln line) []byte {
	if p.omitted == 0 || ln.off < slices.Max(p.offsets) || field(ln.body, "omitted") != nil {
		return ln.body
	}
	body := task.AppendInt(slices.Clip(ln.body), "omitted", int64(p.omitted))
	return task.AppendInt(body, "failures", int64(p.failures))
}

// restorePrior sets t.History to the earlier attempts of t, and t.Failures. Their outputs were not kept.
func (l *contents) restorePrior(t *task.Task) {
	p, tried := l.prior[t.Identity]
	if !tried {
		return
	}
	t.Failures, t.History = int32(p.failures), &task.AttemptHistory{Omitted: p.omitted}
	for _, off := range p.offsets {
		if rec, err := readRecord(l.file, off); err == nil {
			t.History.Before = append(t.History.Before, earlierResult(t, &rec.Facts))
		}
	}
}
