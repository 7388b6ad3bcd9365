package coproc

import (
	"bytes"
	"io"
	"slices"
	"strconv"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

const (
	smallOutput   = 1 << 10  // up to this size outputs share the memory of a slab
	slabSize      = 16 << 10 // the size of that
	flightsAtOnce = 16       // flights that are allocated together, which costs less
	mostMemory    = 64 << 10 // how much of an unfinished output is kept outside of the spool
	excerptSize   = 60       // how much of an answer a message shows
)

// output holds the stderr of a flight, and its stdout where that is streamed, long, or a
// filter's.
type output struct {
	out, err spool.Stream

	// for others to see while the record is unanswered

	id     uint64
	number int
	last   []byte // the end of stderr; under the loop's mu
}

// open returns the output of a flight.
func (l *loop) open(f *flight) *output {
	if f.said == nil {
		f.said = &output{id: f.Task.ID, number: f.Attempt}
		if l.Plan.Keeps() {
			f.said.out.Kept, f.said.err.Kept = l.Store.Buffer(), l.Store.Buffer()
		}
		if l.Plan.Show == task.ShowLines {
			a := f.attempt()
			a.Slot = l.slot
			f.said.out.To, f.said.err.To = l.Open(a)
		}
	}
	return f.said
}

// close ends the streams.
func (s *output) close() {
	s.out.End()
	s.err.End()
}

// discard gives up the output of a flight, which may be nil.
func (s *output) discard() {
	if s != nil {
		s.close()
		s.out.Discard()
		s.err.Discard()
	}
}

// addStderr adds to the stderr of a flight.
func (l *loop) addStderr(f *flight, p []byte) {
	s := l.open(f)
	_ = s.err.Write(p) // the result has the error
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.last == nil {
		l.speaking = append(l.speaking, s)
	}
	s.last = spool.LastOf(s.last, p)
}

// hide hides s, which may be nil, from others.
func (l *loop) hide(s *output) {
	if s == nil || s.last == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.speaking = slices.DeleteFunc(l.speaking, func(o *output) bool { return o == s })
}

// speaking calls each with what workers have written on stderr for records that they
// have not answered, while that does not change.
func (w *Workers) speaking(each func(*output)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.loops {
		l.mu.Lock()
		for _, s := range l.speaking {
			each(s)
		}
		l.mu.Unlock()
	}
}

// Live returns what the worker has written on stderr for the unanswered record of a task,
// and the number of the attempt, or 0 if that is nothing. An answer is there as a whole
// or not at all, so there is no stdout. For other tasks see proc.Local.
func (w *Workers) Live(id uint64) (stdout, stderr task.Live, attempt int) {
	w.speaking(func(s *output) {
		if s.id == id && s.err.Kept != nil {
			stderr, attempt = s.err.Kept.Hold(), s.number
		}
	})
	if attempt == 0 {
		return w.Local.Live(id)
	}
	return nil, stderr, attempt
}

// Said returns the end of that, for each task.
func (w *Workers) Said() map[uint64][]byte {
	all := map[uint64][]byte{}
	w.speaking(func(s *output) { all[s.id] = slices.Clone(s.last) })
	return all
}

// strays returns where stderr goes that belongs to no record.
func (l *loop) strays() io.Writer {
	if l.Stray == nil {
		return io.Discard
	}
	if l.stray == nil {
		l.stray = l.Stray(l.slot)
	}
	return l.stray
}

// keepSmall makes a copy of p the stdout of a flight that has ended.
func (l *loop) keepSmall(p []byte, f *flight) {
	if len(l.slab)+len(p) > cap(l.slab) {
		l.slab = make([]byte, 0, slabSize)
	}
	n := len(l.slab)
	l.slab = append(l.slab, p...)
	f.out = l.slab[n:len(l.slab):len(l.slab)]
	f.Stdout = &f.out
}

// excerpt returns the beginning of an answer, of which p is the last part, for a
// message.
func (w *worker) excerpt(p []byte) string {
	if kept := w.partial.Kept; kept != nil {
		first := make([]byte, excerptSize+1)
		n, _ := kept.ReadAt(first, 0)
		p = first[:n]
	}
	p = bytes.TrimRight(p, "\r\n\x00")
	if len(p) > excerptSize {
		return strconv.Quote(string(p[:excerptSize])) + "..."
	}
	return strconv.Quote(string(p))
}
