package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"crew/runner/decide/task"
)

// tailSize is how many bytes of the end of an output are kept.
const tailSize = 4 << 10

// Stream receives stdout or stderr of an attempt. The zero Stream keeps only the end of it.
type Stream struct {
	Kept *Buffer        // the whole output; nil to keep only the end
	To   io.WriteCloser // receives a copy of the output; may be nil
	Room *Room          // what the attempt may still write; nil for no limit

	tail  []byte
	fault error // the first error of Kept
}

// Room is the rest of a task.Bound, which the streams of an attempt share.
type Room struct {
	task.Bound
	used int64 // more than Bytes once something was dropped
}

// NewRoom returns the whole room that a bound allows, or nil if it sets no limit.
func NewRoom(b *task.Bound) *Room {
	if b.Bytes == 0 {
		return nil
	}
	return &Room{Bound: *b}
}

// Take returns as much of p as there is room for, and takes that room. r may be nil.
func (r *Room) Take(p []byte) []byte {
	if r == nil {
		return p
	}
	left := max(0, r.Bytes-r.used)
	r.used += int64(len(p))
	return p[:min(left, int64(len(p)))]
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

// Write stores p and passes it to To, as far as there is Room. It returns the first error of Kept, and then
// stores nothing more.
func (s *Stream) Write(p []byte) error {
	p = s.Room.Take(p)
	if s.To != nil {
		_, _ = s.To.Write(p) // the sink itself reports an error to the run
	}
	if s.Kept != nil {
		if s.fault == nil {
			_, s.fault = s.Kept.Write(p)
		}
		return s.fault
	}
	s.tail = AppendTail(s.tail, p)
	return nil
}

// Fault returns the first error of Kept.
func (s *Stream) Fault() error { return s.fault }

// AppendTail appends p to last, the end of an output, and shortens the result to the last tailSize
// bytes.
func AppendTail(last, p []byte) []byte {
	last = append(last, p[max(0, len(p)-tailSize):]...)
	return last[max(0, len(last)-tailSize):]
}

// HandOver moves the contents of stdout and stderr, and the first fault of stderr or else of stdout, to a
// result. The result's tail is that of stderr, or of stdout if that is blank.
func HandOver(r *task.Result, stdout, stderr *Stream) {
	stdout.Room.settle(r)
	r.Stdout, r.Stderr = stdout.output(), stderr.output()
	for _, s := range [...]*Stream{stderr, stdout} {
		if len(bytes.TrimSpace(r.Tail)) == 0 && len(s.tail) > 0 {
			r.Tail = s.tail
		}
		setFault(r, s.fault)
	}
}

// setFault records in a result that its output is incomplete because of err. It does nothing if err is nil
// or the result already has a fault.
func setFault(r *task.Result, err error) {
	if err != nil && r.Fault == nil {
		r.Fault = fmt.Errorf("task %d: its output is incomplete: %w", r.Task.ID, err)
	}
}

// output returns Kept, or nil if it is empty.
func (s *Stream) output() task.Output {
	if s.Kept == nil {
		return nil
	}
	if s.Kept.Len() == 0 {
		s.Discard()
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

// End closes To.
func (s *Stream) End() {
	if s.To != nil {
		_ = s.To.Close() // the sink itself reports an error to the run
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
