package crewtest

import (
	"bytes"
	"sync"
)

// Output is an io.WriteCloser whose text can be read while others write. Its zero value is
// empty.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write appends p.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// String returns all that was written.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// Close does nothing.
func (o *Output) Close() error { return nil }
