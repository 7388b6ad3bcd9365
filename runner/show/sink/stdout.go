package sink

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"sync"
	"syscall"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// StdoutConfig says how results are shown.
type StdoutConfig struct {
	Plan    task.Plan
	Records Records      // for JSON
	Store   *spool.Store // for output that is held back; may be nil if none is
	// Group returns the lines around a block of a task's output, or of its error output,
	// in the log of a CI server. It is nil for none, and unless Plan.Show is ShowBlocks.
	Group func(t *task.Task, r *task.Result, stderr bool) (begin, end string)
}

// Stdout shows tasks' output and results: at Finished, or with Plan.Order at
// Released. Output that does not have to wait for its turn is written by the end
// of the batch.
//
// If a large output has to wait, Stdout takes ownership and sets the event's
// Result.Stdout, Result.Stderr and Result.Before to nil. So it has to come after
// all other sinks that read outputs.
//
// Consume returns the first error, now and from then on. After an error of
// stdout nothing more is written there, and results that need it are dropped and
// counted; after one of the spool, everything that can still be shown is. Errors of
// stderr do not stop the run: Close returns the first one, unless it only says that
// nobody reads stderr.
//
// Consume and Close are for one goroutine. Open is safe for concurrent use.
type Stdout struct {
	cfg StdoutConfig
	scr *Screen

	// used by Consume and Close alone

	reorder reorderBuffer // results that wait for their turn, with Plan.Order
	object  object        // buffers for JSON
	shows   [2]shown      // where results go
	gather  []byte        // what is shown at the end of the batch
	stream  int           // where that goes
	locked  bool          // Consume has taken the screen's lock, which it keeps until its end

	// used under the screen's lock alone

	ports [2]port

	// shared with the writers of Open

	mu    sync.Mutex
	fault error                  // the first error
	turn  uint64                 // with Plan.Order: the task whose lines are shown as they come
	lines map[uint64]*lineBuffer // with Plan.Order: of running tasks, by ID

	taggers sync.Pool // of *tagger
}

// The streams, as indexes.
const toStdout, toStderr = 0, 1

// NewStdout returns a Stdout that writes through scr. It needs a Store with Plan.Order and ShowLines.
func NewStdout(scr *Screen, cfg StdoutConfig) *Stdout {
	s := &Stdout{cfg: cfg, scr: scr, turn: 1}
	s.ports = [2]port{{w: scr.out}, {w: scr.err, stderr: true}}
	s.shows = [2]shown{{s, toStdout}, {s, toStderr}}
	s.taggers.New = func() any { return new(tagger) }
	s.object = object{outputs: cfg.Plan.Show == task.ShowObjects, frames: cfg.Plan.Show == task.ShowFrames, records: cfg.Records}
	if cfg.Plan.Order {
		s.reorder = reorderBuffer{head: 1, log: &log{Buffer: cfg.Store.Buffer(), live: 1}}
		s.lines = map[uint64]*lineBuffer{}
	}
	return s
}

// Consume shows what the events allow to be shown. It also returns errors that
// the writers of Open met, even without events.
func (s *Stdout) Consume(events []task.Event) error {
	if s.cfg.Plan.Show == task.ShowNothing {
		return nil
	}
	s.note(s.unread(events))
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case task.Finished:
			next := i+1 < len(events) && events[i+1].Kind == task.Released && events[i+1].ID == e.ID
			s.finished(e, s.result(events[:i+1]), next)
		case task.Released:
			for id := e.ID; id <= e.Last && s.cfg.Plan.Order; id++ {
				s.released(id)
			}
		}
	}
	if s.cfg.Plan.Show == task.ShowLines && s.cfg.Plan.Order {
		s.passTurn(s.reorder.head)
	}
	s.flush()
	if s.locked {
		s.locked = false
		s.scr.mu.Unlock()
	}
	return s.note(nil)
}

// Close returns the first error. What was never released goes with the Store.
func (s *Stdout) Close(task.Stats) error {
	if err := s.note(nil); err != nil {
		return err
	}
	s.scr.mu.Lock()
	defer s.scr.mu.Unlock()
	return s.ports[toStderr].err
}

// unread returns EPIPE if the reader of stdout has gone. It looks at every empty
// batch, so a run ends with its reader even if its tasks are silent. If tasks
// write to crew's own stdout, it also looks when one has failed, before the next
// one fails for the same reason.
func (s *Stdout) unread(events []task.Event) error {
	failed := func(e task.Event) bool { return e.Kind == task.Finished && e.Result.Outcome.Failed() }
	if len(events) > 0 && (s.cfg.Plan.Show != task.ShowRaw || !slices.ContainsFunc(events, failed)) {
		return nil
	}
	if abandoned(s.scr.out.w) {
		return fmt.Errorf("write stdout: %w", syscall.EPIPE)
	}
	return nil
}

// note keeps err, which may be nil, for Consume to return, and returns the first error.
func (s *Stdout) note(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = cmp.Or(s.fault, err)
	return s.fault
}

// LostOutput reports whether something could not be shown because nobody read stdout any
// more. It is safe for concurrent use.
func (s *Stdout) LostOutput() bool { return s.ports[toStdout].unread.Load() }

// result returns the result to show of the task that the last event finishes. If its
// attempt has just failed and gets no retry because the run ends, it is that one's.
func (s *Stdout) result(events []task.Event) *task.Result {
	last := len(events) - 1
	if s.cfg.Plan.Show == task.ShowBlocks && last > 0 {
		if e := &events[last-1]; e.Kind == task.Retried && e.ID == events[last].ID {
			return e.Result
		}
	}
	return events[last].Result
}

// finished shows a result r of the task that e finishes, or keeps it for its turn. If
// next is true, the next event releases it.
func (s *Stdout) finished(e *task.Event, r *task.Result, next bool) {
	t := e.Task
	switch {
	case r.Earlier || s.cfg.Plan.FailedOnly && r.Outcome.Succeeded():
		return
	case r.Known(): // from an earlier run: the result has its output in every mode
	case s.cfg.Plan.Show == task.ShowLines && s.cfg.Plan.Order:
		t, r = nil, s.endLines(e.ID)
		defer r.Close()
	case s.cfg.Plan.Streams():
		return
	}
	switch {
	case !s.cfg.Plan.Order || next && e.ID == s.reorder.head:
		s.show(t, r)
	case !s.pack(e.ID, t, r):
		for _, o := range [...]task.Output{r.Stdout, r.Stderr} {
			if b, ok := o.(*spool.Buffer); ok {
				b.Spill()
			}
		}
		own := *r
		s.reorder.hold(e.ID, held{own: func() {
			s.show(t, &own)
			own.Close()
		}})
		r.Stdout, r.Stderr, r.Before = nil, nil, nil
	}
}

// pack has a small result wait for its turn as it will be shown. It reports false if the
// outputs that are shown are more than a piece, or cannot be packed.
func (s *Stdout) pack(id uint64, t *task.Task, r *task.Result) bool {
	size := captured(r)
	if s.cfg.Plan.Show == task.ShowFacts {
		size = 0
	}
	if size > piece {
		return false
	}
	l := s.reorder.room(s.cfg.Store, size)
	h := held{in: l}
	var failed error
	h.at[0] = uint32(l.Len())
	for stream := range s.shows {
		failed = cmp.Or(failed, s.write(l, t, r, stream))
		h.at[stream+1] = uint32(l.Len())
	}
	if s.note(failed); failed == nil && h.at[2] > h.at[0] {
		l.live++
		s.reorder.hold(id, h)
	}
	return failed == nil
}

// released shows what was held for a task.
func (s *Stdout) released(id uint64) {
	h := s.reorder.release(id)
	switch {
	case h.own != nil:
		h.own()
	case h.in != nil:
		for stream := range s.shows {
			s.note(h.in.WriteRange(&s.shows[stream], int64(h.at[stream]), int64(h.at[stream+1]-h.at[stream])))
		}
		s.uncolour()
		h.in.free()
	}
}

// captured returns how much all attempts of a task have written.
func captured(r *task.Result) int64 {
	n := task.Length(r.Stdout) + task.Length(r.Stderr)
	for _, b := range r.Before {
		n += captured(b)
	}
	return n
}

// prefix returns what goes before each line of an attempt that holds units in a slot of a host.
func (s *Stdout) prefix(t *task.Task, slot int, host string, units []task.Units) string {
	if t == nil || !s.cfg.Plan.Tag {
		return ""
	}
	return t.TagOn(slot, host, units) + "\t"
}

// shown is a stream for Consume: it gathers what is small, and keeps other writers away from
// the rest of the batch once it writes something.
type shown struct {
	s      *Stdout
	stream int
}

func (w *shown) Write(p []byte) (int, error) {
	s := w.s
	if s.stream != w.stream {
		s.flush() // the other one may go on
	}
	if s.stream = w.stream; len(s.gather)+len(p) > piece {
		if err := s.flush(); err != nil {
			return 0, err
		}
	}
	if len(p) > piece {
		return len(p), s.put(p)
	}
	s.gather = append(s.gather, p...)
	return len(p), nil
}

// flush shows what was gathered.
func (s *Stdout) flush() (err error) {
	if len(s.gather) > 0 {
		err = s.put(s.gather)
		s.gather = s.gather[:0]
	}
	return err
}

// put writes to the current stream.
func (s *Stdout) put(p []byte) error {
	if !s.locked {
		s.scr.mu.Lock()
		s.locked = true
	}
	_, err := s.ports[s.stream].Write(p)
	s.note(err)
	return err
}

// show shows a result. Nothing is better than half an object.
func (s *Stdout) show(t *task.Task, r *task.Result) {
	before := len(s.gather)
	err := s.write(&s.shows[toStdout], t, r, toStdout)
	if err != nil && s.cfg.Plan.JSON() {
		s.gather = s.gather[:min(before, len(s.gather))]
	}
	s.note(cmp.Or(err, s.write(&s.shows[toStderr], t, r, toStderr)))
	s.uncolour()
}

// uncolour ends the colours that a result has left on.
func (s *Stdout) uncolour() {
	if !s.scr.out.terminal && !s.scr.err.terminal {
		return
	}
	if s.flush(); s.locked {
		s.scr.uncolour()
	}
}

// write writes what is shown of a result on one stream to w: an object, or an output with
// its tag before each line and in its group.
func (s *Stdout) write(w io.Writer, t *task.Task, r *task.Result, to int) error {
	if s.cfg.Plan.JSON() {
		if to == toStderr {
			return nil
		}
		return s.object.write(w, t, r)
	}
	o := [...]task.Output{r.Stdout, r.Stderr}[to]
	if task.Length(o) == 0 {
		return nil
	}
	tag, begin, end := s.prefix(t, r.Worker, r.Host, r.Units), "", ""
	if s.cfg.Group != nil {
		begin, end = s.cfg.Group(t, r, to == toStderr)
	}
	if tag == "" && begin == "" {
		_, err := o.WriteTo(w)
		return err
	}
	return s.tagged(w, tag, begin, end, o)
}
