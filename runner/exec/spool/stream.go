package spool

import (
	"bytes"
	"fmt"
	"io"

	"crew/runner/decide/task"
)

// tailSize is how much is remembered of the end of an output.
const tailSize = 4 << 10

// Stream takes one of the two outputs of an attempt. The zero Stream remembers its end.
type Stream struct {
	Kept *Buffer        // all of it; nil if only its end is remembered
	To   io.WriteCloser // where it is streamed to; may be nil

	tail  []byte
	fault error // of Kept
}

// Write passes p on. It returns the first error of Kept, after which that takes no more.
func (s *Stream) Write(p []byte) error {
	if s.To != nil {
		_, _ = s.To.Write(p) // the sink itself reports an error to the run
	}
	if s.Kept != nil {
		if s.fault == nil {
			_, s.fault = s.Kept.Write(p)
		}
		return s.fault
	}
	s.tail = LastOf(s.tail, p)
	return nil
}

// Fault returns the first error of Kept.
func (s *Stream) Fault() error { return s.fault }

// LastOf appends p to the end of an output, of which it keeps a part.
func LastOf(last, p []byte) []byte {
	last = append(last, p[max(0, len(p)-tailSize):]...)
	return last[max(0, len(last)-tailSize):]
}

// HandOver gives what stdout and stderr hold to a result.
func HandOver(r *task.Result, stdout, stderr *Stream) {
	r.Stdout, r.Stderr = stdout.output(), stderr.output()
	for _, s := range [...]*Stream{stderr, stdout} {
		if len(bytes.TrimSpace(r.Tail)) == 0 && len(s.tail) > 0 {
			r.Tail = s.tail
		}
		Cut(r, s.fault)
	}
}

// Cut notes in a result why its output could not be kept, unless err is nil.
func Cut(r *task.Result, err error) {
	if err != nil && r.Fault == nil {
		r.Fault = fmt.Errorf("task %d: its output is cut: %w", r.Task.ID, err)
	}
}

// output returns what was kept, or nil if that is nothing.
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

// Discard gives up what was kept.
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

// Tail returns at most the last n bytes.
func (t Text) Tail(n int) ([]byte, error) { return bytes.Clone(t[max(0, len(t)-n):]), nil }

// Close does nothing.
func (t Text) Close() error { return nil }

// Hold returns t.
func (t Text) Hold() task.Live { return t }

// ReadAt reads from an offset on.
func (t Text) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(t).ReadAt(p, off) }
