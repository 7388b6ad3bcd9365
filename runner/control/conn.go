package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"time"

	"crew/runner/task"
)

const (
	lineTime  = 10 * time.Second // for a whole request, from its first byte on
	writeTime = time.Minute      // for a client to take something
	block     = 64 << 10         // how many bytes to read and write at once
)

// conn is a connection of a client. Its goroutine answers one request after another.
type conn struct {
	s *Server
	f *os.File

	in   *bufio.Reader
	idle atomic.Int64 // since when no request is under way, as Unix time in nanoseconds; 0 if one is

	out bytes.Buffer  // replies
	enc *json.Encoder // to out
	err error         // the client cannot be written to

	room []byte // for output of tasks
}

func newConn(s *Server, f *os.File) *conn {
	c := &conn{s: s, f: f, in: bufio.NewReaderSize(f, block)}
	c.enc = json.NewEncoder(&c.out)
	c.enc.SetEscapeHTML(false)
	return c
}

var (
	errLong   = &Refused{"bad request: the line is longer than 8 MiB", malformed}
	errSlow   = &Refused{"bad request: the line took longer than 10 seconds", malformed}
	errNoLine = &Refused{"bad request: the line has no end", malformed}
)

// serve answers the client's requests until it goes or the server closes.
func (c *conn) serve() {
	for c.err == nil {
		line, err := c.line()
		if err != nil {
			if _, ours := errors.AsType[*Refused](err); ours {
				c.fail(err)
				_ = c.flush()
			}
			return
		}
		if req, err := decode(line); err != nil {
			c.fail(err)
		} else {
			c.answer(req)
		}
	}
}

// line returns the next request, which is valid until the next call. The replies to
// earlier ones are sent before it waits.
func (c *conn) line() (line []byte, err error) {
	received, _ := c.in.Peek(c.in.Buffered())
	if bytes.IndexByte(received, '\n') < 0 {
		if err := c.begin(len(received) > 0); err != nil {
			return nil, err
		}
		defer c.f.SetReadDeadline(time.Time{})
	}
	for {
		part, err := c.in.ReadSlice('\n')
		if line == nil && err == nil {
			return part[:len(part)-1], nil
		}
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, errLong
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, io.EOF):
			return nil, errNoLine
		case errors.Is(err, os.ErrDeadlineExceeded) && !c.s.over():
			return nil, errSlow
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// begin sends the replies, waits for the first byte of a request unless that has come,
// and sets the deadline for the others.
func (c *conn) begin(begun bool) error {
	if err := c.flush(); err != nil {
		return err
	}
	if !begun {
		c.idle.Store(time.Now().UnixNano())
		defer c.idle.Store(0)
		if c.s.over() { // Close may have come while there was a deadline
			return io.EOF
		}
		if _, err := c.in.Peek(1); err != nil {
			return err
		}
	}
	_ = c.f.SetReadDeadline(time.Now().Add(c.s.lineTime))
	if c.s.over() { // Close may have come before the deadline was set
		return io.EOF
	}
	return nil
}

// put adds a reply. It is sent at once if many wait.
func (c *conn) put(r *Reply) {
	if c.err != nil {
		return
	}
	r.V = Version
	c.err = c.enc.Encode(r)
	if c.out.Len() >= block {
		_ = c.flush()
	}
}

// end adds the last reply to a request: r, which may be nil, and why it failed unless
// err is nil.
func (c *conn) end(r *Reply, err error) {
	if r == nil {
		r = &Reply{}
	}
	r.End = true
	if err != nil {
		r.Error, r.Status = task.Bytes(err.Error()), refused
		if why, ours := errors.AsType[*Refused](err); ours {
			r.Status = why.Status
		} else if errors.Is(err, task.ErrFull) {
			r.Status = full
		}
	}
	c.put(r)
}

// fail adds the reply to a request that is not carried out.
func (c *conn) fail(err error) { c.end(nil, err) }

// flush sends the replies. Once that has failed, it fails for good.
func (c *conn) flush() error {
	for c.err == nil && c.out.Len() > 0 {
		_ = c.f.SetWriteDeadline(time.Now().Add(c.s.writeTime))
		if c.s.over() { // otherwise Close sets the deadline
			_ = c.f.SetWriteDeadline(time.Now().Add(c.s.gap))
		}
		_, c.err = c.f.Write(c.out.Next(block))
	}
	if c.out.Len() == 0 && c.out.Cap() > 4*block {
		c.out = bytes.Buffer{}
	}
	return c.err
}

// gone reports whether the client is gone.
func (c *conn) gone() bool { return c.err != nil || gone(c.f) }
