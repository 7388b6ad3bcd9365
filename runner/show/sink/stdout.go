package sink

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"sync"
	"syscall"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// StdoutConfig says how to show results.
type StdoutConfig struct {
	Plan    task.Plan
	Records Records      // for JSON
	Store   *spool.Store // for output that is held back; nil if there is none
	// Group returns the lines around a block of a task's stdout or stderr in the log of a CI
	// server. It may be nil. It is only for ShowBlocks.
	Group func(t *task.Task, r *task.Result, stderr bool) (begin, end string)
}

// Stdout shows the output and the results of tasks, when they are Finished or, with Plan.Order,
// when they are Released. Output that need not wait for its turn is written by the end of the
// batch.
//
// If a large output has to wait, Stdout takes ownership and sets the event's Result.Stdout,
// Result.Stderr and Result.Before to nil. So it must come after all other sinks that read outputs.
//
// Consume returns the first error, now and in later calls. After an error of stdout, nothing more
// is written there, and results for it are dropped. After an error of the spool,
// everything that can still be shown is shown. Errors of stderr do not stop the run: Close returns
// the first one, unless it only means that nothing reads stderr.
//
// Consume and Close are for one goroutine. Open is safe for concurrent use.
type Stdout struct {
	cfg StdoutConfig
	scr *Screen

	// used only by Consume and Close

	reorder reorderBuffer // results that wait for their turn, with Plan.Order
	object  object        // writes JSON
	locked  bool          // Consume holds the screen's lock until its end

	// guarded by the screen's lock

	ports [2]port          // stdout and stderr
	bufs  [2]*bufio.Writer // write to ports; only one holds text, and both are empty when the lock is released

	// shared with the writers of Open

	mu    sync.Mutex
	fault error                  // the first error
	turn  uint64                 // with Plan.Order: the task whose lines are shown as they come
	lines map[uint64]*lineBuffer // with Plan.Order: buffers of running tasks, by ID
}

// Indexes of the streams.
const toStdout, toStderr = 0, 1

// NewStdout returns a Stdout that writes to scr. With Plan.Order and with ShowLines, cfg needs a
// Store.
func NewStdout(scr *Screen, cfg StdoutConfig) *Stdout {
	s := &Stdout{cfg: cfg, scr: scr, turn: 1}
	s.ports = [2]port{{w: scr.out}, {w: scr.err, stderr: true}}
	for stream := range s.bufs {
		s.bufs[stream] = bufio.NewWriterSize(&s.ports[stream], 2*piece)
	}
	s.object = object{outputs: cfg.Plan.Show == task.ShowObjects, records: cfg.Records}
	if cfg.Plan.Order {
		s.reorder = reorderBuffer{head: 1, packed: &packedResults{Buffer: cfg.Store.Buffer(), unreleased: 1}}
		s.lines = map[uint64]*lineBuffer{}
	}
	return s
}

// Consume shows the results that events allow to be shown. It also returns errors of the writers of
// Open, even if there are no events.
func (s *Stdout) Consume(events []task.Event) error {
	if s.cfg.Plan.Show == task.ShowNothing {
		return nil
	}
	s.noteError(s.checkReader(events))
	for i := range events {
		e := &events[i]
		switch e.Kind {
		case task.Finished:
			next := i+1 < len(events) && events[i+1].Kind == task.Released && events[i+1].ID == e.ID
			s.finished(e, s.resultToShow(events[:i+1]), next)
		case task.Released:
			for id := e.ID; id <= e.Last && s.cfg.Plan.Order; id++ {
				s.showReleased(id)
			}
		}
	}
	if s.cfg.Plan.Show == task.ShowLines && s.cfg.Plan.Order {
		s.passTurn(s.reorder.head)
	}
	if s.locked {
		s.flush()
		s.locked = false
		s.scr.mu.Unlock()
	}
	return s.noteError(nil)
}

// Close returns the first error. Results that were never released are dropped with the Store.
func (s *Stdout) Close(task.Stats) error {
	if err := s.noteError(nil); err != nil {
		return err
	}
	s.scr.mu.Lock()
	defer s.scr.mu.Unlock()
	return s.ports[toStderr].err
}

// checkReader returns EPIPE if nothing reads stdout any more. It checks at every empty batch, so a
// run ends when its reader does, even if its tasks print nothing. If tasks write to crew's own
// stdout, it checks at every batch, before more tasks fail for the same reason.
func (s *Stdout) checkReader(events []task.Event) error {
	if len(events) > 0 && s.cfg.Plan.Show != task.ShowRaw {
		return nil
	}
	if abandoned(s.scr.out.w) {
		return fmt.Errorf("write stdout: %w", syscall.EPIPE)
	}
	return nil
}

// noteError keeps err, which may be nil, and returns the first error.
func (s *Stdout) noteError(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = cmp.Or(s.fault, err)
	return s.fault
}

// LostOutput reports whether output was lost because nothing read stdout any more. It is safe for
// concurrent use.
func (s *Stdout) LostOutput() bool { return s.ports[toStdout].noReader.Load() }

// resultToShow returns the result of the task that the last event finishes. If its retry was
// dropped because the run ends, it returns the result of the failed attempt.
func (s *Stdout) resultToShow(events []task.Event) *task.Result {
	last := len(events) - 1
	if s.cfg.Plan.Show == task.ShowBlocks && last > 0 {
		if e := &events[last-1]; e.Kind == task.Retried && e.ID == events[last].ID {
			return e.Result
		}
	}
	return events[last].Result
}

// finished shows the result r of the task that e finishes, or holds it for its turn. next means
// that the next event releases it.
func (s *Stdout) finished(e *task.Event, r *task.Result, next bool) {
	t := e.Task
	switch {
	case r.Earlier || s.cfg.Plan.FailedOnly && r.Outcome.Succeeded():
		return
	case r.FromEarlierRun(): // from an earlier run: has its output in every mode
	case s.cfg.Plan.Show == task.ShowLines && s.cfg.Plan.Order:
		t, r = nil, s.removeLines(e.ID)
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
		s.reorder.hold(e.ID, held{show: func() {
			s.show(t, &own)
			own.Close()
		}})
		r.Stdout, r.Stderr, r.Before = nil, nil, nil
	}
}

// pack holds a small result in the form in which it will be shown. It returns false if the outputs
// are longer than a piece or cannot be packed.
func (s *Stdout) pack(id uint64, t *task.Task, r *task.Result) bool {
	size := captured(r)
	if s.cfg.Plan.Show == task.ShowFacts {
		size = 0
	}
	if size > piece {
		return false
	}
	l := s.reorder.bufferFor(s.cfg.Store, size)
	h := held{buffer: l}
	var failed error
	h.offsets[0] = uint32(l.Len())
	for stream := range s.bufs {
		failed = cmp.Or(failed, s.write(l, t, r, stream))
		h.offsets[stream+1] = uint32(l.Len())
	}
	if s.noteError(failed); failed == nil && h.offsets[2] > h.offsets[0] {
		l.unreleased++
		s.reorder.hold(id, h)
	}
	return failed == nil
}

// showReleased shows the result held for a task.
func (s *Stdout) showReleased(id uint64) {
	h := s.reorder.release(id)
	switch {
	case h.show != nil:
		h.show()
	case h.buffer != nil:
		for stream := range s.bufs {
			if from, to := int64(h.offsets[stream]), int64(h.offsets[stream+1]); from < to {
				_, err := h.buffer.WriteRange(s.writer(stream), from, to)
				s.noteError(err)
			}
		}
		s.resetColours()
		h.buffer.release()
	}
}

// captured returns how many bytes all attempts of a task have written.
func captured(r *task.Result) int64 {
	n := task.Length(r.Stdout) + task.Length(r.Stderr)
	for _, b := range r.Before {
		n += captured(b)
	}
	return n
}

// prefix returns the prefix of each line of an attempt that holds units in a slot of a host.
func (s *Stdout) prefix(t *task.Task, slot int, host string, units []task.Units) string {
	if t == nil || !s.cfg.Plan.Tag {
		return ""
	}
	return t.TagOn(slot, host, units) + "\t"
}

// writer returns the writer for the next output of a stream. It keeps other writers out until the end of the
// batch. An output of up to a piece is written at once, as other programs may write to the same file.
func (s *Stdout) writer(stream int) io.Writer {
	if !s.locked {
		s.scr.mu.Lock()
		s.locked = true
	}
	if s.bufs[1-stream].Buffered() > 0 || s.bufs[stream].Buffered() > piece {
		s.flush()
	}
	return s.bufs[stream]
}

// flush writes the buffered text.
func (s *Stdout) flush() {
	for _, b := range s.bufs {
		s.noteError(b.Flush())
	}
}

// show shows a result.
func (s *Stdout) show(t *task.Task, r *task.Result) {
	for stream := range s.bufs {
		s.noteError(s.write(nil, t, r, stream))
	}
	s.resetColours()
}

// resetColours ends colours that a result has left active.
func (s *Stdout) resetColours() {
	if !s.scr.out.terminal && !s.scr.err.terminal {
		return
	}
	if s.locked {
		s.flush()
		s.scr.resetColoursLocked()
	}
}

// write writes one stream of a result to w or, if that is nil, to the stream: a JSON object, or the
// output with a tag before each line and in its group.
func (s *Stdout) write(w io.Writer, t *task.Task, r *task.Result, to int) error {
	o, json := [...]task.Output{r.Stdout, r.Stderr}[to], s.cfg.Plan.JSON()
	if json && to == toStderr || !json && task.Length(o) == 0 {
		return nil
	}
	if w == nil {
		w = s.writer(to)
	}
	if json {
		return s.object.write(w, t, r)
	}
	tag, begin, end := s.prefix(t, r.Worker, r.Host, r.Units), "", ""
	if s.cfg.Group != nil {
		begin, end = s.cfg.Group(t, r, to == toStderr)
	}
	if tag == "" && begin == "" {
		_, err := o.WriteTo(w)
		return err
	}
	return tagged(w, tag, begin, end, o)
}
