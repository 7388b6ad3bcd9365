package sink

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"crew/runner/spool"
	"crew/runner/task"
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

// Validate reports whether the Config makes sense.
func (c StdoutConfig) Validate() error {
	if c.Group != nil && c.Plan.Show != task.ShowBlocks {
		return errors.New("only blocks of output can be grouped")
	}
	if c.Store == nil && (c.Plan.Order || c.Plan.Show == task.ShowLines) {
		return errors.New("output that is held back needs a spool")
	}
	return nil
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

	reorder *reorderBuffer // nil without Plan.Order
	object  object         // buffers for JSON
	scratch bytes.Buffer   // one rendered result
	tag     tagger         // buffer for tagged lines
	gather  []byte         // what is shown at the end of the batch
	parts   []part         // which of gather goes where
	shows   int            // the results in gather that need stdout

	// used under the screen's lock alone

	ports [2]port

	// shared with the writers of Open

	lost  atomic.Int64 // results whose reader had gone
	mu    sync.Mutex
	fault error                  // the first error
	turn  uint64                 // with Plan.Order: the task whose lines are shown as they come
	lines map[uint64]*lineBuffer // with Plan.Order: of running tasks, by ID

	taggers sync.Pool // of *tagger, for lines
}

// The streams, as indexes.
const toStdout, toStderr = 0, 1

// part is a run of gathered bytes for one stream.
type part struct{ stream, end int }

// large is a result that is too large to be copied. It owns result's outputs if
// it waits for its turn.
type large struct {
	task   *task.Task // nil if its lines have their tags
	result task.Result
}

// NewStdout returns a Stdout that writes through scr. The config has to be
// valid.
func NewStdout(scr *Screen, cfg StdoutConfig) *Stdout {
	s := &Stdout{cfg: cfg, scr: scr, turn: 1}
	s.ports[toStderr].stderr = true
	s.taggers.New = func() any { return new(tagger) }
	s.object = object{outputs: cfg.Plan.Show == task.ShowObjects, records: cfg.Records}
	if cfg.Plan.Order {
		s.reorder = newReorderBuffer(cfg.Store)
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
			s.finished(e, s.shown(events[:i+1]), next)
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
	return s.note(nil)
}

// Close returns the first error. What was never released goes with the Store.
func (s *Stdout) Close(task.Stats) error {
	if err := s.note(nil); err != nil {
		return err
	}
	return s.scr.Print(func(_, _ io.Writer) error { return s.ports[toStderr].err })
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

// lose counts n results as lost if err, from writing them, says that nobody reads
// stdout. It reports whether it did.
func (s *Stdout) lose(err error, n int) bool {
	if n == 0 || !errors.Is(err, syscall.EPIPE) {
		return false
	}
	s.lost.Add(int64(n))
	return true
}

// Lost returns how many results could not be shown in whole because nobody read
// stdout any more. It is safe for concurrent use.
func (s *Stdout) Lost() int64 { return s.lost.Load() }

// shown returns the result to show of the task that the last event finishes. If its
// attempt has just failed and gets no retry because the run ends, it is that one's.
func (s *Stdout) shown(events []task.Event) *task.Result {
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
	case s.cfg.Plan.Show == task.ShowLines && s.reorder != nil:
		t, r = nil, s.endLines(e.ID)
		defer r.Close()
	case s.cfg.Plan.Streams():
		return
	}
	now := s.reorder == nil || next && e.ID == s.reorder.head
	if out, err, small := s.render(t, r); small {
		if now {
			s.add(out, err)
		} else {
			s.note(s.reorder.put(e.ID, out, err))
		}
		return
	}
	l := &large{t, *r}
	if now {
		s.show(l)
		return
	}
	s.reorder.putLarge(e.ID, l)
	r.Stdout, r.Stderr, r.Before = nil, nil, nil
}

// released shows what was held for a task.
func (s *Stdout) released(id uint64) {
	if s.reorder == nil {
		return
	}
	s.scratch.Reset()
	out, l, err := s.reorder.take(id, &s.scratch)
	s.note(err)
	switch p := s.scratch.Bytes(); {
	case l != nil:
		s.show(l)
		l.result.Close()
	case err == nil:
		s.add(p[:out], p[out:])
	}
}

// render returns a small result as it is shown, valid until the next call. A result is
// small if the outputs that are shown are no more than a piece. The task is nil for lines
// that were held.
func (s *Stdout) render(t *task.Task, r *task.Result) (out, err []byte, small bool) {
	json := s.cfg.Plan.JSON()
	if (s.object.outputs || !json) && captured(r) > piece {
		return nil, nil, false
	}
	if s.scratch.Reset(); s.scratch.Cap() > chunkSize { // escapes and tags can make much of little
		s.scratch = bytes.Buffer{}
	}
	var failed error
	if json {
		if failed = s.object.write(&s.scratch, t, r); failed != nil {
			s.scratch.Reset() // nothing is better than half an object
		}
	} else {
		failed = s.copyStream(&s.scratch, t, r, toStdout)
	}
	mid := s.scratch.Len()
	if !json && failed == nil {
		failed = s.copyStream(&s.scratch, t, r, toStderr)
	}
	s.note(failed)
	p := s.scratch.Bytes()
	return p[:mid], p[mid:], true
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

// add gathers a small block of each stream.
func (s *Stdout) add(out, err []byte) {
	if len(out) > 0 {
		s.shows++
	}
	for i, p := range [...][]byte{out, err} {
		if len(p) == 0 {
			continue
		}
		to := [...]*stream{s.scr.out, s.scr.err}[i]
		if s.gather = append(s.gather, p...); to.terminal && escapes(p) {
			s.gather = append(s.gather, resetColour...)
		}
		if n := len(s.parts); n == 0 || s.parts[n-1].stream != i {
			s.parts = append(s.parts, part{stream: i})
		}
		s.parts[len(s.parts)-1].end = len(s.gather)
	}
	if len(s.gather) >= piece {
		s.flush()
	}
}

// flush shows what was gathered.
func (s *Stdout) flush() {
	if len(s.gather) == 0 {
		return
	}
	failed := s.print(func() error {
		from := 0
		var failed error
		for _, p := range s.parts {
			_, err := s.ports[p.stream].Write(s.gather[from:p.end])
			failed = cmp.Or(failed, err)
			from = p.end
		}
		return failed
	})
	s.lose(failed, s.shows)
	s.gather, s.parts, s.shows = s.gather[:0], s.parts[:0], 0
}

// show streams a large result, after what was gathered. It reports whether the
// result was lost.
func (s *Stdout) show(l *large) (lost bool) {
	s.flush()
	failed := s.print(func() error {
		if s.cfg.Plan.JSON() {
			w := bufio.NewWriterSize(&s.ports[toStdout], piece)
			if err := s.object.write(w, l.task, &l.result); err != nil {
				return err
			}
			return w.Flush()
		}
		failed := s.copyStream(&s.ports[toStdout], l.task, &l.result, toStdout)
		failed = cmp.Or(failed, s.copyStream(&s.ports[toStderr], l.task, &l.result, toStderr))
		s.scr.uncolour()
		return failed
	})
	return s.lose(failed, 1)
}

// print calls write with the ports ready for use, and notes its error.
func (s *Stdout) print(write func() error) error {
	failed := s.scr.Print(func(out, err io.Writer) error {
		s.ports[toStdout].w, s.ports[toStderr].w = out, err
		return write()
	})
	s.note(failed)
	return failed
}

// copyStream writes an output of a result to w, with its tag before each line and in its
// group.
func (s *Stdout) copyStream(w io.Writer, t *task.Task, r *task.Result, to int) error {
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
	s.tag.reset(w, tag, false, begin)
	_, err := o.WriteTo(&s.tag)
	return cmp.Or(err, s.tag.end(end))
}
