package spool

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"crew/runner/decide/task"
)

// tailSize is how many bytes of the end of an output are kept.
const tailSize = 4 << 10

// Outputs describes what happens to the output of attempts.
type Outputs struct {
	Plan  task.Plan
	Store *Store                                       // holds the output of results; must be set if Plan.Keeps
	Open  func(task.Attempt) (out, err io.WriteCloser) // called once per attempt with task.ShowLines; must be set then
}

// OpenStreams returns the streams of an attempt.
func (o *Outputs) OpenStreams(a task.Attempt) (s Streams) {
	if b := o.Plan.BoundOf(a.Task); b.Bytes > 0 {
		s.Out.Room = &Room{Bound: *b}
		s.Err.Room = s.Out.Room
	}
	if o.Plan.Keeps() {
		s.Out.Kept, s.Err.Kept = o.Store.Buffer(), o.Store.Buffer()
	}
	if o.Plan.Show == task.ShowLines {
		s.Out.To, s.Err.To = o.Open(a)
	}
	return s
}

// Streams receive the output of an attempt.
type Streams struct{ Out, Err Stream }

// Both returns the two streams.
func (s *Streams) Both() [2]*Stream { return [...]*Stream{&s.Out, &s.Err} }

// Fault returns the first error of Err or else of Out.
func (s *Streams) Fault() error { return cmp.Or(s.Err.fault, s.Out.fault) }

// HandOver ends the streams and moves their contents and the Fault to a result. The result's tail is that of
// stderr, or of stdout if that is blank.
func (s *Streams) HandOver(r *task.Result) {
	s.end()
	s.Out.Room.settle(r)
	r.Stdout, r.Stderr = s.Out.output(), s.Err.output()
	if r.Tail = s.Err.tail; len(bytes.TrimSpace(r.Tail)) == 0 && len(s.Out.tail) > 0 {
		r.Tail = s.Out.tail
	}
	if err := s.Fault(); err != nil && r.Fault == nil {
		r.Fault = fmt.Errorf("task %d: its output is incomplete: %w", r.Task.ID, err)
	}
}

// Discard ends the streams and drops what they hold.
func (s *Streams) Discard() {
	s.end()
	s.Out.Discard()
	s.Err.Discard()
}

func (s *Streams) end() {
	s.Out.End()
	s.Err.End()
}

// Stream receives stdout or stderr of an attempt. The zero Stream keeps only the end of it.
type Stream struct {
	Kept *Buffer        // the whole output; nil to keep only the end
	To   io.WriteCloser // receives a copy of the output; may be nil
	Room *Room          // what the attempt may still write; nil for no limit
	Size int64          // number of bytes written so far, with those that were dropped

	tail  []byte
	fault error // the first error of Kept or To
}

// Room is the rest of a task.Bound, which the streams of an attempt share.
type Room struct {
	task.Bound
	used int64 // more than Bytes once something was dropped
}

// Ends reports whether the attempt must end because it wrote more than there was room for. r may be nil.
func (r *Room) Ends() bool { return r != nil && r.used > r.Bytes && !r.Cut }

// settle records in a result that output was dropped. Unless crew has ended the attempt for another reason,
// it has failed if Ends.
func (r *Room) settle(to *task.Result) {
	switch {
	case r == nil || r.used <= r.Bytes:
	case r.Cut:
		to.Cut = r.Bytes
	case slices.Contains([]task.Outcome{task.OK, task.Exit, task.Signal, task.TooMuch}, to.Outcome):
		to.Outcome, to.Err = task.TooMuch, errors.New("wrote more than "+task.Size(r.Bytes))
	}
}

// Write stores p and passes it to To, as far as there is Room. It never fails: after an error, which
// Streams.Fault returns, it stores nothing more.
func (s *Stream) Write(p []byte) (int, error) {
	n := len(p)
	s.Size += int64(n)
	if r := s.Room; r != nil {
		left := max(0, r.Bytes-r.used)
		r.used += int64(n)
		p = p[:min(left, int64(n))]
	}
	if s.To != nil {
		_, err := s.To.Write(p)
		s.fault = cmp.Or(s.fault, err)
	}
	switch {
	case s.Kept == nil:
		s.tail = AppendTail(s.tail, p)
	case s.fault == nil:
		_, s.fault = s.Kept.Write(p)
	}
	return n, nil
}

// Take moves to s, which is empty, what another stream has stored, and passes it to To.
func (s *Stream) Take(from *Stream) {
	if s.To != nil {
		_, err := from.Kept.WriteTo(s.To)
		s.fault = cmp.Or(from.fault, err)
	}
	if s.Kept != nil {
		s.fault = cmp.Or(from.fault, s.fault)
		s.Kept, from.Kept = from.Kept, s.Kept
	}
}

// AppendTail appends p to last, the end of an output, and shortens the result to the last tailSize
// bytes.
func AppendTail(last, p []byte) []byte {
	last = append(last, p[max(0, len(p)-tailSize):]...)
	return last[max(0, len(last)-tailSize):]
}

// output returns Kept. If that is empty, it closes it and returns nil.
func (s *Stream) output() task.Output {
	switch {
	case s.Kept == nil:
		return nil
	case s.Kept.Len() == 0:
		_ = s.Kept.Close()
		return nil
	}
	return s.Kept
}

// Discard closes Kept and drops it.
func (s *Stream) Discard() {
	if s.Kept != nil {
		_ = s.Kept.Close()
		s.Kept = nil
	}
}

// End closes and drops To.
func (s *Stream) End() {
	if s.To != nil {
		s.fault = cmp.Or(s.fault, s.To.Close())
		s.To = nil
	}
}

// Text is a small task.Output that does not change.
type Text []byte

// Len returns the number of bytes.
func (t Text) Len() int64 { return int64(len(t)) }

// WriteTo writes the whole output to w.
func (t Text) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(t)
	return int64(n), err
}

// Close does nothing.
func (t Text) Close() error { return nil }

// Hold returns t.
func (t Text) Hold() task.Live { return t }

// ReadAt implements io.ReaderAt.
func (t Text) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(t).ReadAt(p, off) }
