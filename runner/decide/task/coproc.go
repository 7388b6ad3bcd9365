package task

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// Protocol is how a persistent worker takes tasks and answers. A task's record is its
// Stdin, without what ends it in the protocol.
type Protocol uint8

// The protocols.
const (
	NoProtocol   Protocol = iota // a process of its own for each attempt
	LineProtocol                 // a record and a newline in, one line out
	NULProtocol                  // the same with NUL bytes
	// JSONProtocol is an object on a line in and one out, in any order. Stdin holds the
	// members "args" and "fields" of the object, without its braces.
	JSONProtocol
	FilterProtocol // blocks in; the output is the worker's and belongs to no block
)

// Begin appends what a persistent worker reads before the Stdin of a task.
func (p Protocol) Begin(b []byte, record uint64) []byte {
	if p == JSONProtocol {
		b = append(strconv.AppendUint(append(b, `{"id":`...), record, 10), ',')
	}
	return b
}

// End appends what the worker reads behind it, of an attempt that holds units and makes m or,
// if that is nil, no files.
func (p Protocol) End(b []byte, attempt int, units Holding, m *Making) []byte {
	switch p {
	case LineProtocol:
		return append(b, '\n')
	case NULProtocol:
		return append(b, 0)
	case JSONProtocol:
		b = AppendInt(b, "attempt", int64(attempt))
		if units != nil {
			b = units.append(AppendName(b, "units"))
		}
		return append(m.AppendOuts(b), "}\n"...)
	}
	return b
}

// Life says how long a persistent worker lives.
type Life struct {
	Ready   string        // matches the line on stdout that says that it is ready; "" for none
	Start   time.Duration // in which that must come; 0 for no limit
	Records int           // after which it is replaced; 0 for never
	Age     time.Duration // after which it is; 0 for never
}

// Swap is how a worker of an Executor gets the attempts of its slot: it reports the
// results of those that have ended and takes those that are to run from now on. It
// does not block. The slice is valid until the next call.
type Swap func(ended []*Result) (next []Attempt, left Expectation)

// Left says whether a slot may expect more attempts.
type Expectation uint8

// The values of Left.
const (
	ExpectMore    Expectation = iota // attempts may come
	ExpectRetries                    // no task waits and none will come, but one that runs may be tried again
	ExpectNone                       // nothing runs or waits, or the slot has left: its worker shall end
)

// Block is a part of a file or stream that is a task's standard input: Head, then Text
// or a range of File.
type Block struct {
	Head []byte // the header
	Text []byte

	Name     string   // of the file or stream
	File     *os.File // read by offset; nil if Text is all
	Off, Len int64    // where the block begins, without Head; Len is 0 without File

	// Free is called once the task is finished, so that Text can be used for another
	// block; it does not wait. It may be nil.
	Free func()
}

// Place says which bytes of which file or stream the block is.
func (b *Block) Place() string {
	n := int64(len(b.Text)) + b.Len
	return fmt.Sprintf("bytes %d-%d of %s", b.Off, b.Off+n-1, b.Name)
}

// Size returns the number of bytes.
func (b *Block) Size() int64 { return int64(len(b.Head)+len(b.Text)) + b.Len }

// WriteTo writes all bytes to w. It may be called again.
func (b *Block) WriteTo(w io.Writer) (n int64, err error) {
	parts := []io.Reader{bytes.NewReader(b.Head), bytes.NewReader(b.Text)}
	if b.File != nil {
		parts = append(parts, io.NewSectionReader(b.File, b.Off, b.Len))
	}
	if n, err = io.Copy(w, io.MultiReader(parts...)); err == nil && n < b.Size() {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}
