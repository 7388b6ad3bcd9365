package sink

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"syscall"

	"crew/runner/spool"
	"crew/runner/task"
)

// StdoutConfig says how results are shown.
type StdoutConfig struct {
	Plan    task.Plan
	Batches bool         // in JSON: tasks can have several records
	Store   *spool.Store // what is held back is kept there; nil will do for none of it
}

// Validate says what contradicts itself.
func (c StdoutConfig) Validate() error {
	if c.Store == nil && (c.Plan.Order || c.Plan.Show == task.ShowLines) {
		return errors.New("output that is held back needs a spool")
	}
	return nil
}

// Stdout shows tasks' output and results. Without Plan.Order a result is shown
// at Finished, with which Released comes in one batch; with it, at Released.
// Nothing is kept back longer than a batch but what has to wait for its turn.
//
// Where a large output has to wait, Stdout takes it over: it sets the event's
// Result.Stdout, Result.Stderr and Result.Before to nil. So it has to be the last
// of the sinks that look at outputs.
//
// Consume returns the first error from the one on that met it. Nothing goes to
// stdout after an error of writing there; after one of the spool, what can be
// shown still is. Errors of writing to stderr do not stop the run, and are
// nobody's where nobody reads it; of others Close returns the first.
//
// Consume and Close are for one goroutine; Open and the writers it returns for
// any.
type Stdout struct {
	cfg StdoutConfig
	scr *Screen

	// of the goroutine that consumes

	reorder *reorderBuffer // nil without Plan.Order
	object  object         // room for JSON
	scratch appender       // one rendered result
	tag     tagger         // room for tags
	gather  []byte         // what is shown when the batch ends
	parts   []part         // which of gather goes where

	// under the Screen's lock

	out, err port
	wide     *bufio.Writer // for what is streamed in small pieces; nil until needed

	// of all

	mu    sync.Mutex
	fault error                  // the first
	turn  uint64                 // the task whose lines go out as they come, where they wait for their turn
	lines map[uint64]*lineBuffer // of tasks that run, likewise

	taggers sync.Pool // of *tagger, for lines
}

// part is a run of gathered bytes for one stream.
type part struct {
	stderr bool
	end    int
}

// NewStdout makes the sink; cfg has to be valid.
func NewStdout(scr *Screen, cfg StdoutConfig) *Stdout {
	s := &Stdout{cfg: cfg, scr: scr, turn: 1}
	s.err.stderr = true
	s.object.outputs, s.object.batches = cfg.Plan.Show == task.ShowObjects, cfg.Batches
	if cfg.Plan.Order {
		s.reorder = newReorderBuffer(cfg.Store)
		s.lines = map[uint64]*lineBuffer{}
	}
	return s
}

// Consume shows what the events let be shown. Without events it still returns
// what writers of Open met.
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
			s.finished(e, next)
		case task.Released:
			for id := e.ID; id <= e.Last; id++ {
				s.released(id)
			}
		}
	}
	s.flush()
	if s.cfg.Plan.Show == task.ShowLines && s.reorder != nil {
		s.passTurn(s.reorder.head)
	}
	return s.failure()
}

// Close drops what was never released, and returns the first error.
func (s *Stdout) Close(task.Stats) error {
	s.flush()
	if s.reorder != nil {
		s.reorder.close()
		s.closeLines()
	}
	if err := s.failure(); err != nil {
		return err
	}
	return s.scr.Print(func(_, _ io.Writer) error { return s.err.lost })
}

// unread is the error of writing to a stdout that nobody reads any more, where
// crew has nothing to write. It is looked for now and then, so that a run ends
// with its reader though its tasks are silent; and where tasks write to crew's
// own stdout when one has failed, before the next one meets the same.
func (s *Stdout) unread(events []task.Event) error {
	failed := func(e task.Event) bool { return e.Kind == task.Finished && e.Result.Outcome.Failed() }
	if len(events) > 0 && (s.cfg.Plan.Show != task.ShowRaw || !slices.ContainsFunc(events, failed)) {
		return nil
	}
	return s.scr.Print(func(out, _ io.Writer) error {
		if abandoned(out) {
			return fmt.Errorf("write stdout: %w", syscall.EPIPE)
		}
		return nil
	})
}

// note keeps the first error for Consume.
func (s *Stdout) note(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault == nil {
		s.fault = err
	}
}

func (s *Stdout) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// finished shows a result, or keeps it for its turn. next says that the turn
// comes with the next event.
func (s *Stdout) finished(e *task.Event, next bool) {
	r := e.Result
	switch {
	case r.Earlier:
		return
	case e.Task.Done != nil: // its output is in the result, whatever the plan
	case s.cfg.Plan.Show == task.ShowLines && s.reorder != nil:
		s.endLines(e.ID)
		return
	case s.cfg.Plan.Streams():
		return
	}
	out, err, small := s.render(e.Task, r)
	switch {
	case s.reorder == nil || next && e.ID == s.reorder.head:
		if small {
			s.add(out, err)
			return
		}
		l := s.large(e.Task, r)
		s.show(&l)
	case small:
		s.note(s.reorder.put(e.ID, out, err))
	default:
		own := *r
		l := s.large(e.Task, &own)
		s.reorder.putLarge(e.ID, &l)
		r.Stdout, r.Stderr, r.Before = nil, nil, nil
	}
}

// released shows what was held for a task.
func (s *Stdout) released(id uint64) {
	if s.reorder == nil {
		return
	}
	p, out, l, err := s.reorder.take(id, s.scratch.p[:0])
	s.note(err)
	if l != nil {
		s.show(l)
		l.close()
		return
	}
	s.scratch.p = p
	if err == nil {
		s.add(p[:out], p[out:])
	}
}

// render makes a small result into what is shown of it, valid until the next
// one. It is not small where its outputs are more than a piece, or what is
// shown of them is more than a chunk.
func (s *Stdout) render(t *task.Task, r *task.Result) (out, err []byte, small bool) {
	if s.object.outputs && captured(r) > piece {
		return nil, nil, false
	}
	w := &s.scratch
	w.p, w.max = w.p[:0], chunkSize
	var failed error
	var mid int
	if s.cfg.Plan.JSON() {
		failed = s.object.write(w, t, r)
		mid = len(w.p)
	} else {
		var tag string
		if s.cfg.Plan.Tag {
			tag = prefix(t, r.Worker)
		}
		failed = s.copyStream(w, tag, r.Stdout)
		mid = len(w.p)
		if failed == nil {
			failed = s.copyStream(w, tag, r.Stderr)
		}
	}
	if errors.Is(failed, errRoom) {
		return nil, nil, false
	}
	s.note(failed)
	return w.p[:mid], w.p[mid:], true
}

// captured is how much the attempts of a task have written.
func captured(r *task.Result) int64 {
	n := task.Length(r.Stdout) + task.Length(r.Stderr)
	for _, b := range r.Before {
		n += task.Length(b.Stdout) + task.Length(b.Stderr)
	}
	return n
}

// large is a result by its handles, which stay r's.
func (s *Stdout) large(t *task.Task, r *task.Result) large {
	l := large{out: r.Stdout, err: r.Stderr}
	switch {
	case s.cfg.Plan.JSON():
		l.task, l.result = t, r
	case s.cfg.Plan.Tag:
		l.tag = prefix(t, r.Worker)
	}
	return l
}

// add gathers a small block of each stream.
func (s *Stdout) add(out, err []byte) {
	s.addTo(false, out)
	s.addTo(true, err)
	if len(s.gather) >= piece {
		s.flush()
	}
}

func (s *Stdout) addTo(stderr bool, p []byte) {
	if len(p) == 0 {
		return
	}
	s.gather = append(s.gather, p...)
	if n := len(s.parts); n > 0 && s.parts[n-1].stderr == stderr {
		s.parts[n-1].end = len(s.gather)
		return
	}
	s.parts = append(s.parts, part{stderr, len(s.gather)})
}

// flush shows what was gathered.
func (s *Stdout) flush() {
	if len(s.gather) == 0 {
		return
	}
	s.note(s.scr.Print(func(out, err io.Writer) error {
		from := 0
		var failed error
		for _, p := range s.parts {
			if _, werr := s.port(p.stderr, out, err).Write(s.gather[from:p.end]); werr != nil {
				failed = werr
			}
			from = p.end
		}
		return failed
	}))
	s.gather, s.parts = s.gather[:0], s.parts[:0]
}

// port is where a stream goes; it is asked for under the Screen's lock alone.
func (s *Stdout) port(stderr bool, out, err io.Writer) *port {
	if stderr {
		s.err.w = err
		return &s.err
	}
	s.out.w = out
	return &s.out
}

// show streams a large result after what was gathered.
func (s *Stdout) show(l *large) {
	s.flush()
	s.note(s.scr.Print(func(out, err io.Writer) error {
		if s.cfg.Plan.JSON() {
			return s.showObject(s.port(false, out, err), l)
		}
		failed := s.copyStream(s.port(false, out, err), l.tag, l.out)
		return errors.Join(failed, s.copyStream(s.port(true, out, err), l.tag, l.err))
	}))
}

// copyStream writes a stream to w, its lines after tag where that is not empty.
func (s *Stdout) copyStream(w io.Writer, tag string, o task.Output) error {
	if o == nil {
		return nil
	}
	if tag == "" {
		_, err := o.WriteTo(w)
		return err
	}
	s.tag.reset(w, tag, false)
	if _, err := o.WriteTo(&s.tag); err != nil {
		return err
	}
	return s.tag.end()
}

func (s *Stdout) showObject(p *port, l *large) error {
	if s.wide == nil {
		s.wide = bufio.NewWriterSize(p, piece)
	}
	s.wide.Reset(p)
	if err := s.object.write(s.wide, l.task, l.result); err != nil {
		return err
	}
	return s.wide.Flush()
}
