package task

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"
)

// Protocol is how a persistent worker reads tasks and answers. A task's record is its Stdin, without
// the terminator of the protocol.
type Protocol uint8

// The protocols.
const (
	NoProtocol   Protocol = iota // each attempt has its own process
	LineProtocol                 // a record and a newline in, one line out
	NULProtocol                  // the same with NUL bytes instead of newlines
	// JSONProtocol is a line with an object in and one out, in any order. Stdin holds the members
	// "args" and "fields" of the object, without its braces.
	JSONProtocol
	FilterProtocol // blocks in; the output belongs to the worker, not to a block
)

// Begin appends the bytes that go before the Stdin of a task.
func (p Protocol) Begin(b []byte, record uint64) []byte {
	if p == JSONProtocol {
		b = append(strconv.AppendUint(append(b, `{"id":`...), record, 10), ',')
	}
	return b
}

// End appends the bytes that go after the Stdin of an attempt. The attempt holds units and makes m,
// which may be nil.
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

// MaxMessage is the greatest length of a message to a persistent worker.
const MaxMessage = 64 << 10

// Message appends a message about a record, which the worker does not answer. It has no id, so that workers
// can tell it from a record. Only JSONProtocol has messages.
func (p Protocol) Message(b []byte, record uint64, text string) []byte {
	b = Bytes(text).Append(append(b, `{"message":`...))
	return append(AppendInt(b, "to", int64(record)), "}\n"...)
}

// Life limits the life of a persistent worker.
type Life struct {
	Ready   string        // matches the line on stdout that reports that the worker is ready; "" for none
	Start   time.Duration // limit for that line to come; 0 for no limit
	Records int           // most records before the worker is replaced; 0 for no limit
	Age     time.Duration // greatest age before the worker is replaced; 0 for no limit
}

// Limit limits an attempt. The fields Timeout and KillAfter of a task take precedence.
type Limit struct {
	Timeout   time.Duration // 0 for none
	Idle      time.Duration // how long it may write nothing; 0 for no limit
	KillAfter time.Duration // from asking it to end until it is killed
}

// Swap exchanges attempts between a worker of an Executor and its slot: the worker reports the results
// of ended attempts, and gets the attempts to run from now on. Swap does not block. The slice next is
// valid until the next call.
type Swap func(ended []*Result) (next []Attempt, left Expectation)

// Expectation says whether a slot may get more attempts.
type Expectation uint8

// The expectations.
const (
	ExpectMore    Expectation = iota // attempts may come
	ExpectRetries                    // no task is waiting or will come, but a running one may be retried
	ExpectNone                       // no task is running or waiting, or the slot has left: its worker must end
)

// Block is a part of a file or stream that is a task's standard input: Head, followed by Text or a
// range of File.
type Block struct {
	Head []byte // the header
	Text []byte

	Name     string   // of the file or stream
	File     *os.File // read by offset; nil if Text is all
	Off, Len int64    // offset of the block, without Head, and its length in File; Len is 0 without File

	// Free is called once the task is finished, so that Text can be used for another block. It must
	// not block. It may be nil.
	Free func()
}

// Place describes the position of the block, as in "bytes 0-99 of FILE".
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
