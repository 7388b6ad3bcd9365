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
	lineTimeout  = 10 * time.Second // for the client to send its request
	writeTimeout = time.Minute      // for the client to read something
	block        = 64 << 10         // bytes per read and write
)

// Link is a connection to a client.
type Link interface {
	io.ReadWriteCloser
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	// Gone reports whether the client has closed its end.
	Gone() bool
}

// conn is the connection of a client, which makes one request.
type conn struct {
	s    *Server
	link Link
	out  bytes.Buffer // replies that were not sent yet
	err  error        // the first error of a write
	buf  []byte       // for the output of tasks
}

// serve answers the client's request and closes the connection.
func (c *conn) serve() {
	req, err := c.readRequest()
	if err != nil {
		c.replyEnd(nil, err)
	} else {
		c.replyEnd(ops[req.Op](c, req))
	}
	_ = c.flush()
	_ = c.link.Close()
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	delete(c.s.conns, c)
}

// readRequest reads the request.
func (c *conn) readRequest() (*Request, error) {
	_ = c.link.SetReadDeadline(time.Now().Add(c.s.cfg.lineTimeout))
	if c.s.isOver() { // Close may have come before the deadline was set
		return nil, errOver
	}
	line, err := bufio.NewReaderSize(io.LimitReader(c.link, maxLine+1), block).ReadBytes('\n')
	switch {
	case len(line) > maxLine:
		return nil, badRequest("the line is longer than 8 MiB: add less at once")
	case err == nil:
		return decodeRequest(line)
	case errors.Is(err, io.EOF):
		return nil, badRequest("the line has no end")
	case errors.Is(err, os.ErrDeadlineExceeded) && !c.s.isOver():
		return nil, badRequest("the line took longer than 10 seconds")
	}
	return nil, errOver
}

// reply adds a reply to the buffer, and flushes a full buffer.
func (c *conn) reply(r *Reply) {
	if c.err != nil {
		return
	}
	r.V = Version
	c.err = writeLine(&c.out, r)
	if c.out.Len() >= block {
		_ = c.flush()
	}
}

// replyEnd adds the last reply: r, which may be nil, with the error err, if that is not nil.
func (c *conn) replyEnd(r *Reply, err error) {
	if r == nil {
		r = &Reply{}
	}
	r.End = true
	if err != nil {
		r.Error, r.Status = task.Bytes(err.Error()), statusRefused
		if why, ours := errors.AsType[*Refused](err); ours {
			r.Status, r.Over = why.Status, why.Over
		}
	}
	c.reply(r)
}

// flush sends the buffered replies. After an error it always fails.
func (c *conn) flush() error {
	for c.err == nil && c.out.Len() > 0 {
		_ = c.link.SetWriteDeadline(time.Now().Add(writeTimeout))
		if c.s.isOver() { // otherwise Close sets the deadline
			_ = c.link.SetWriteDeadline(time.Now().Add(c.s.cfg.partingGap))
		}
		_, c.err = c.link.Write(c.out.Next(block))
	}
	return c.err
}
