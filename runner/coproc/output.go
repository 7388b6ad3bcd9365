package coproc

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"

	"crew/runner/spool"
	"crew/runner/task"
)

const (
	smallOutput   = 1 << 10  // up to this size outputs share the memory of a slab
	slabSize      = 16 << 10 // the size of that
	resultsAtOnce = 16       // results that are allocated together, which costs less
	mostMemory    = 64 << 10 // how much of an unfinished output is kept outside of the spool
	tailSize      = 4 << 10  // how much is remembered of an output that is not kept
	excerptSize   = 60       // how much of an answer a message shows
)

// result is a Result with its outputs.
type result struct {
	task.Result
	out, err spool.Text
}

// newResult returns the result of a flight that ends now, with its stderr.
func (l *lane) newResult(f *flight) *result {
	if len(l.results) == 0 {
		l.results = make([]result, resultsAtOnce)
	}
	r := &l.results[0]
	l.results = l.results[1:]
	r.Task, r.Attempt, r.Worker, r.Host, r.Start, r.End = f.task, f.number, l.slot.ID, l.slot.Host, f.start, l.at
	if l.w != nil && !f.start.IsZero() {
		r.PID, r.Argv = l.w.p.PID, l.w.argv
	} else {
		r.Argv = f.task.ArgvOn(l.slot.ID, l.slot.Host)
	}
	if f.said != nil {
		l.hush(f.said)
		l.keep(&f.said.capture, r, &r.err, &r.Stderr)
		f.said.close()
	}
	return r
}

// said is the stderr of a flight, and where its outputs are streamed to.
type said struct {
	capture
	out, err io.WriteCloser // nil if they are not

	// for others to see while the record is unanswered

	id     uint64
	number int
	last   []byte // the end of stderr; under the lane's mu
}

// open returns the stderr of a flight.
func (l *lane) open(f *flight) *said {
	if f.said == nil {
		f.said = &said{id: f.task.ID, number: f.number}
		if l.cfg.Plan.Show == task.ShowLines {
			f.said.out, f.said.err = l.cfg.Open(task.Attempt{Task: f.task, Number: f.number, Slot: l.slot})
		}
	}
	return f.said
}

// close ends the streams.
func (s *said) close() {
	for _, w := range [...]io.WriteCloser{s.out, s.err} {
		if w != nil {
			_ = w.Close() // the sink itself reports an error to the run
		}
	}
}

// complain adds to the stderr of a flight.
func (l *lane) complain(f *flight, p []byte) {
	s := l.open(f)
	if s.err != nil {
		_, _ = s.err.Write(p) // the sink itself reports an error to the run
	}
	if s.last == nil && l.cfg.Plan.Keeps() {
		s.kept = l.cfg.Store.Buffer() // which others can read
	}
	l.collect(&s.capture, p, l.cfg.Plan.Keeps())
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.last == nil {
		l.speaking = append(l.speaking, s)
	}
	s.last = lastOf(s.last, p)
}

// lastOf appends p to the end of an output, of which it keeps a part.
func lastOf(last, p []byte) []byte {
	last = append(last, p[max(0, len(p)-lastSaid):]...)
	return last[max(0, len(last)-lastSaid):]
}

// hush hides s, which may be nil, from others.
func (l *lane) hush(s *said) {
	if s == nil || s.last == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.speaking = slices.DeleteFunc(l.speaking, func(o *said) bool { return o == s })
}

// speaking calls each with what workers have written on stderr for records that they
// have not answered, while that does not change.
func (w *Workers) speaking(each func(*said)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lanes {
		l.mu.Lock()
		for _, s := range l.speaking {
			each(s)
		}
		l.mu.Unlock()
	}
}

// Live returns what the worker has written on stderr for the unanswered record of a task,
// and the number of the attempt, or 0 if that is nothing. An answer is there as a whole
// or not at all, so there is no stdout.
func (w *Workers) Live(id uint64) (stdout, stderr task.Live, attempt int) {
	w.speaking(func(s *said) {
		if s.id == id && s.kept != nil {
			stderr, attempt = s.kept.Hold(), s.number
		}
	})
	return nil, stderr, attempt
}

// Said returns the end of that, for each task.
func (w *Workers) Said() map[uint64][]byte {
	all := map[uint64][]byte{}
	w.speaking(func(s *said) { all[s.id] = slices.Clone(s.last) })
	return all
}

// stray shows stderr that belongs to no record.
func (l *lane) stray(p []byte) {
	if l.cfg.Stray == nil || len(p) == 0 {
		return
	}
	if l.strays == nil {
		l.strays = l.cfg.Stray(l.slot)
	}
	_, _ = l.strays.Write(p) // the sink itself reports an error to the run
}

// strayer is an io.Writer to stray.
type strayer struct{ *lane }

func (s strayer) Write(p []byte) (int, error) {
	s.stray(p)
	return len(p), nil
}

// capture is an output that is being collected.
type capture struct {
	text []byte        // all of it, or its end if it is not kept
	kept *spool.Buffer // all of it, instead of text, once it is long
	err  error         // of kept
}

// collect appends p to c. If not all, it may forget what came first.
func (l *lane) collect(c *capture, p []byte, all bool) {
	switch {
	case c.err != nil:
	case c.kept != nil:
		_, c.err = c.kept.Write(p)
	case len(c.text)+len(p) <= mostMemory:
		c.text = append(c.text, p...)
	case all:
		c.kept = l.cfg.Store.Buffer()
		if _, c.err = c.kept.Write(c.text); c.err == nil {
			_, c.err = c.kept.Write(p)
		}
		c.text = nil
	default:
		c.text = append(c.text[:0], p[max(0, len(p)-mostMemory):]...)
	}
}

// keep moves what c has collected to a result. Small output goes to small, which is a
// part of the result.
func (l *lane) keep(c *capture, r *result, small *spool.Text, to *task.Output) {
	switch {
	case c.err != nil:
		r.Fault = fmt.Errorf("record %d: its output is cut: %w", r.Task.ID, c.err)
		if c.kept != nil {
			*to = c.kept
		}
	case c.kept != nil:
		*to = c.kept
	case len(c.text) == 0:
	case !l.cfg.Plan.Keeps():
		r.Tail = append([]byte(nil), c.text[max(0, len(c.text)-tailSize):]...)
	default:
		l.keepText(c.text, r, small, to)
	}
	*c = capture{text: c.text[:0]}
}

// keepText copies an output to a result.
func (l *lane) keepText(p []byte, r *result, small *spool.Text, to *task.Output) {
	if len(p) <= smallOutput {
		if len(l.slab)+len(p) > cap(l.slab) {
			l.slab = make([]byte, 0, slabSize)
		}
		n := len(l.slab)
		l.slab = append(l.slab, p...)
		*small = l.slab[n:len(l.slab):len(l.slab)]
		*to = small
		return
	}
	b := l.cfg.Store.Buffer()
	if _, err := b.Write(p); err != nil {
		r.Fault = fmt.Errorf("record %d: its output is cut: %w", r.Task.ID, err)
	}
	*to = b
}

// excerpt returns the beginning of an answer, of which p is the last part, for a
// message.
func (w *worker) excerpt(p []byte) string {
	if kept := w.partial.kept; kept != nil {
		first := make([]byte, excerptSize+1)
		n, _ := kept.ReadAt(first, 0)
		p = first[:n]
	} else if len(w.partial.text) > 0 {
		p = append(w.partial.text, p...)
	}
	p = bytes.TrimRight(p, "\r\n\x00")
	if len(p) > excerptSize {
		return strconv.Quote(string(p[:excerptSize])) + "..."
	}
	return strconv.Quote(string(p))
}
