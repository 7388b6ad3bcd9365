package spool

import (
	"bytes"
	"io"

	"crew/runner/task"
)

// tailSize is how much is remembered of an output that is not kept.
const tailSize = 4 << 10

// Stream takes one of the two outputs of an attempt. The zero Stream remembers its end.
type Stream struct {
	Kept *Buffer        // all of it; nil if only its end is remembered
	To   io.WriteCloser // where it is streamed to; may be nil
	tail []byte
}

// Write passes p on, and returns the error of Kept.
func (s *Stream) Write(p []byte) error {
	if s.To != nil {
		_, _ = s.To.Write(p) // the sink itself reports an error to the run
	}
	if s.Kept != nil {
		_, err := s.Kept.Write(p)
		return err
	}
	s.tail = append(s.tail, p[max(0, len(p)-tailSize):]...)
	if len(s.tail) > 2*tailSize {
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-tailSize:]...)
	}
	return nil
}

// HandOver gives what stdout and stderr hold to a result.
func HandOver(r *task.Result, stdout, stderr *Stream) {
	r.Stdout, r.Stderr = stdout.output(), stderr.output()
	for _, tail := range [...][]byte{stderr.tail, stdout.tail} {
		if len(bytes.TrimSpace(r.Tail)) == 0 && len(tail) > 0 {
			r.Tail = tail[max(0, len(tail)-tailSize):]
		}
	}
}

// output returns what was kept, or nil if that is nothing.
func (s *Stream) output() task.Output {
	if s.Kept == nil {
		return nil
	}
	if s.Kept.Len() == 0 {
		_ = s.Kept.Close()
		return nil
	}
	return s.Kept
}

// End closes To.
func (s *Stream) End() {
	if s.To != nil {
		_ = s.To.Close() // the sink itself reports an error to the run
	}
}
