package control

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"crew/runner/decide/task"
)

const (
	lineTime  = 10 * time.Second // for a whole request
	writeTime = time.Minute      // for a client to take something
	block     = 64 << 10         // how many bytes to read and write at once
)

// Link is a connection to a client.
type Link interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	// Gone reports whether the client has closed its end.
	Gone() bool
}

// conn is a connection of a client, which makes one request.
type conn struct {
	s    *Server
	f    Link
	out  bytes.Buffer // replies
	err  error        // the client cannot be written to
	room []byte       // for output of tasks
}

// serve answers the client's request.
func (c *conn) serve() {
	line, err := c.line()
	req := &Request{}
	if err == nil {
		req, err = decode(line)
	}
	if err != nil {
		c.end(nil, err)
	} else {
		c.end(opOf(req.Op)(c, req))
	}
	_ = c.flush()
}

// line reads the request.
func (c *conn) line() ([]byte, error) {
	_ = c.f.SetReadDeadline(time.Now().Add(c.s.cfg.lineTime))
	if c.s.over() { // Close may have come before the deadline was set
		return nil, errOver
	}
	line, err := bufio.NewReaderSize(io.LimitReader(c.f, maxLine+1), block).ReadBytes('\n')
	switch {
	case len(line) > maxLine:
		return nil, bad("the line is longer than 8 MiB")
	case err == nil:
		return line[:len(line)-1], nil
	case errors.Is(err, io.EOF):
		return nil, bad("the line has no end")
	case errors.Is(err, os.ErrDeadlineExceeded) && !c.s.over():
		return nil, bad("the line took longer than 10 seconds")
	}
	return nil, errOver
}

// put adds a reply. It is sent at once if many wait.
func (c *conn) put(r *Reply) {
	if c.err != nil {
		return
	}
	r.V = Version
	c.err = writeLine(&c.out, r)
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
			r.Status, r.Over = why.Status, why.Over
		}
	}
	c.put(r)
}

// flush sends the replies. Once that has failed, it fails for good.
func (c *conn) flush() error {
	for c.err == nil && c.out.Len() > 0 {
		_ = c.f.SetWriteDeadline(time.Now().Add(writeTime))
		if c.s.over() { // otherwise Close sets the deadline
			_ = c.f.SetWriteDeadline(time.Now().Add(c.s.cfg.gap))
		}
		_, c.err = c.f.Write(c.out.Next(block))
	}
	return c.err
}
