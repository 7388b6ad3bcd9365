package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

const journalName = "journal.jsonl"

// loaded is what a journal says, as far as a run needs to know it.
type loaded struct {
	head    *record
	table   *table
	running map[identity]int64 // started in the latest run and not ended: where that stands
	scanned scanned

	used    bool  // a task has begun or is done
	tasks   int   // that are done
	failed  int   // of these
	needed  int64 // bytes of lines that are still needed
	outputs int64 // bytes of outputs that are still needed
	outEnd  int64 // where the last of them ends
	closed  bool  // the latest run ended in good order
	last    line  // the latest evRun, without its body
}

// versionError says that a journal is of a format that this crew does not know.
type versionError struct {
	path  string
	found int
}

func (e *versionError) Error() string {
	return fmt.Sprintf("%s has format %d, this crew knows format %d alone: use the crew that wrote it, or begin anew with --state-reset",
		e.path, e.found, version)
}

// damagedHead says that the first line of a journal cannot be read.
type damagedHead struct{ path string }

func (e *damagedHead) Error() string {
	return e.path + " is damaged in its first line, or no journal: begin anew with --state-reset"
}

// readHead reads the first line, which says what the others mean. The sum is
// looked at last: another version may have another one.
func readHead(f io.ReaderAt, path string) (*record, error) {
	b := make([]byte, maxLine)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return nil, err
	}
	first, _ := firstLine(b[:n])
	r, err := parse(bytes.TrimSuffix(first, []byte("}\n")))
	if err != nil || r.Event != evJournal || r.Version == 0 {
		return nil, &damagedHead{path}
	}
	if r.Version != version {
		return nil, &versionError{path, r.Version}
	}
	if _, ok := unseal(first); !ok {
		return nil, &damagedHead{path}
	}
	return r, nil
}

// firstLine is the first line of b with its newline, if it has one.
func firstLine(b []byte) (first []byte, found bool) {
	n := bytes.IndexByte(b, '\n') + 1
	if n == 0 {
		return b, false
	}
	return b[:n], true
}

// load reads a journal of that many bytes; path is its name.
func load(f io.ReaderAt, size int64, path string) (*loaded, error) {
	head, err := readHead(f, path)
	if err != nil {
		return nil, err
	}
	const perTask = 700 // bytes, roughly; the table grows where it is less
	l := &loaded{head: head, table: newTable(filepath.Dir(path), int(size/perTask)), running: map[identity]int64{}}
	l.scanned, err = scan(io.NewSectionReader(f, 0, size), func(ln line) { l.apply(f, ln) })
	if err == nil {
		err = l.table.err
	}
	if err != nil {
		l.table.close()
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return l, nil
}

// loadFile reads the journal that f is.
func loadFile(f *os.File) (*loaded, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return load(f, st.Size(), f.Name())
}

// apply takes in one line. What comes later goes before what came earlier. A
// line that makes no sense, though its sum is right, says nothing.
func (l *loaded) apply(f io.ReaderAt, ln line) {
	ev := event(ln.body)
	switch ev {
	case evReleased:
		l.note(ln.body, shown|logged)
		return
	case evShown:
		l.note(ln.body, shown)
		return
	case evLogged:
		l.note(ln.body, logged)
		return
	case evUnlogged:
		l.table.clear(logged)
		return
	case evRun:
		clear(l.running)
		l.closed, l.last = false, line{at: ln.at, n: ln.n}
		return
	case evClosed:
		l.closed = true
		return
	case evJournal:
		l.needed += ln.n
		return
	}
	id, ok := taskOf(ln.body)
	if !ok {
		return
	}
	switch ev {
	case evStarted:
		l.used = true
		e := l.table.add(id)
		l.forget(f, e)
		e.attempts = max(e.attempts, max(1, attemptOf(ln.body))-1)
		e.flags |= begun
		e.setAt(ln.at)
		l.running[id] = ln.at
	case evAttempt:
		delete(l.running, id)
		if e := l.table.edit(id); e != nil && !e.has(done) {
			if field(ln.body, "retried") != nil && e.failures < math.MaxUint16 {
				e.attempts = max(e.attempts, attemptOf(ln.body))
				e.failures++
			}
			e.setAt(ln.at)
		}
	case evEnded:
		delete(l.running, id)
		l.ended(f, id, ln)
	case evKnown:
		l.known(id, ln)
	}
}

// attemptOf is the number of the attempt that a line's body is about.
func attemptOf(body []byte) uint16 {
	n, err := strconv.ParseUint(string(field(body, "attempt")), 10, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// forget makes a task one that is not done, as it runs once more.
func (l *loaded) forget(f io.ReaderAt, e *entry) {
	if !e.has(done) {
		return
	}
	l.tasks--
	if e.outcome.Failed() {
		l.failed--
	}
	e.failures = 0
	e.flags &^= done | shown | logged | streamed | begun
	if body, n, err := readLine(f, e.at()); err == nil {
		l.needed -= n
		if r, err := parse(body); err == nil {
			l.outputs -= r.Stdout.n + r.Stderr.n + r.Attempts.n
		}
	}
}

func (l *loaded) ended(f io.ReaderAt, id identity, ln line) {
	var now entry
	var out [len(streams)]extent
	ok := false
	members(ln.body, func(name, v []byte) bool {
		switch string(name) {
		case "outcome":
			now.outcome, ok = outcomeOf(v)
		case "duration":
			now.took = duration(v)
		case evReleased:
			now.flags |= shown | logged
		case evShown:
			now.flags |= shown
		case evLogged:
			now.flags |= logged
		case "streamed":
			now.flags |= streamed
		case streams[0]:
			out[0], _ = extentOf(v)
		case streams[1]:
			out[1], _ = extentOf(v)
		case streams[2]:
			out[2], _ = extentOf(v)
		}
		return true
	})
	if !ok {
		return
	}
	e := l.table.add(id)
	l.forget(f, e)
	e.outcome, e.took, e.flags, e.failures = now.outcome, now.took, now.flags|done, 0
	e.attempts = max(e.attempts, attemptOf(ln.body))
	e.setAt(ln.at)
	l.used = true
	l.tasks++
	if e.outcome.Failed() {
		l.failed++
	}
	l.needed += ln.n
	for _, p := range out {
		l.outputs += p.n
		l.outEnd = max(l.outEnd, p.off+p.n)
	}
}

// streams are the members that say where an output is, or all attempts before.
var streams = [...]string{"stdout", "stderr", "attempts"}

// duration reads seconds; 0 is unknown.
func duration(v []byte) float32 {
	d, err := strconv.ParseFloat(string(v), 32)
	if err != nil || d < 0 {
		return 0
	}
	return float32(d)
}

// extentOf reads the inside of [offset,length,sum].
func extentOf(v []byte) (p extent, ok bool) {
	var n [3]int64
	for i := range n {
		digits, rest, _ := bytes.Cut(v, []byte(","))
		d, err := strconv.ParseInt(string(digits), 10, 64)
		if err != nil || d < 0 {
			return p, false
		}
		n[i], v = d, rest
	}
	if len(v) > 0 || n[2] > math.MaxUint32 || n[0]+n[1] < 0 {
		return p, false
	}
	return extent{n[0], n[1], uint32(n[2])}, true
}

// known takes in what lines said that are gone.
func (l *loaded) known(id identity, ln line) {
	age, err := strconv.ParseUint(string(field(ln.body, "age")), 10, 8)
	if err != nil || age > maxAge {
		return
	}
	e := l.table.add(id)
	if e.has(done) {
		return
	}
	e.took = duration(field(ln.body, "duration"))
	e.flags = flags(age) << ageShift
	if failures := field(ln.body, "failures"); failures != nil {
		l.used = true
		n, _ := strconv.ParseUint(string(failures), 10, 16)
		e.flags |= begun
		e.attempts, e.failures = attemptOf(ln.body), uint16(n)
	}
	e.setAt(ln.at)
	l.needed += ln.n
}

// note takes in what has become of results.
func (l *loaded) note(body []byte, f flags) {
	for list := field(body, "tasks"); len(list) > 0; {
		_, rest, _ := bytes.Cut(list, []byte(`"`))
		word, rest, _ := bytes.Cut(rest, []byte(`"`))
		list = rest
		id, ok := parseID(word)
		if !ok {
			continue
		}
		if e := l.table.edit(id); e != nil && e.has(done) {
			e.flags |= f
		}
	}
}

var errNoLine = errors.New("no record where one was")

// readLine reads the line at off again: its body and its whole length.
func readLine(f io.ReaderAt, off int64) (body []byte, n int64, err error) {
	for size := 1 << 10; size <= maxLine; size *= 16 {
		b := make([]byte, size)
		k, err := f.ReadAt(b, off)
		if err != nil && err != io.EOF {
			return nil, 0, err
		}
		if first, found := firstLine(b[:k]); found {
			body, ok := unseal(first)
			if !ok {
				return nil, 0, errNoLine
			}
			return body, int64(len(first)), nil
		}
		if err == io.EOF {
			break
		}
	}
	return nil, 0, errNoLine
}

// stands says whether the result of a done task can stand in a resumed run.
// What went past crew and had to wait for its turn is lost with that run.
func (e *entry) stands() bool { return e.has(done) && (e.has(shown) || !e.has(streamed)) }
