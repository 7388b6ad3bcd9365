package spool

import (
	"bytes"
	"io"

	"crew/runner/task"
)

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
