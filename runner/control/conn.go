package control

import (
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

	in       []byte       // the room for requests
	from, to int          // in[from:to] was received and is not handled
	idle     atomic.Int64 // since when no request is under way, as Unix time in nanoseconds; 0 if one is

	out bytes.Buffer  // replies
	enc *json.Encoder // to out
	err error         // the client cannot be written to

	room []byte // for output of tasks
}

func newConn(s *Server, f *os.File) *conn {
	c := &conn{s: s, f: f}
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
func (c *conn) line() ([]byte, error) {
	limited := false
	for scanned := c.from; ; {
		if i := bytes.IndexByte(c.in[scanned:c.to], '\n'); i >= 0 {
			line := c.in[c.from : scanned+i]
			c.from = scanned + i + 1
			if limited {
				_ = c.f.SetReadDeadline(time.Time{})
			}
			return line, nil
		}
		if err := c.flush(); err != nil {
			return nil, err
		}
		begun := c.to > c.from
		switch {
		case c.to-c.from >= maxLine:
			return nil, errLong
		case !begun:
			c.idle.Store(time.Now().UnixNano())
		case !limited:
			limited = true
			_ = c.f.SetReadDeadline(time.Now().Add(c.s.lineTime))
		}
		if c.s.over() { // Close may have come before the deadline was set
			return nil, io.EOF
		}
		c.makeRoom()
		scanned = c.to
		n, err := c.f.Read(c.in[c.to:])
		c.idle.Store(0)
		c.to += n
		switch {
		case err == io.EOF && begun:
			return nil, errNoLine
		case errors.Is(err, os.ErrDeadlineExceeded) && begun && !c.s.over():
			return nil, errSlow
		case err != nil:
			return nil, err
		}
	}
}

// makeRoom makes room to read into behind what was received.
func (c *conn) makeRoom() {
	if c.from > 0 || c.to == 0 && len(c.in) != block {
		rest := c.in[c.from:c.to]
		if len(rest) < block && len(c.in) != block {
			c.in = make([]byte, block) // a long line needs its memory only once
		}
		c.from, c.to = 0, copy(c.in, rest)
	}
	if c.to == len(c.in) {
		c.in = append(c.in, make([]byte, min(3*len(c.in), maxLine+1-len(c.in)))...)
	}
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

// end adds the last reply to a request: r or, if err is not nil, why it failed.
func (c *conn) end(r *Reply, err error) {
	r.End = true
	if err != nil {
		r.Error, r.Status = err.Error(), refused
		if why, ours := errors.AsType[*Refused](err); ours {
			r.Status = why.Status
		} else if errors.Is(err, task.ErrFull) {
			r.Status = full
		}
	}
	c.put(r)
}

// fail adds the reply to a request that is not carried out.
func (c *conn) fail(err error) { c.end(&Reply{}, err) }

// flush sends the replies. Once that has failed, it fails for good.
func (c *conn) flush() error {
	for c.err == nil && c.out.Len() > 0 {
		_ = c.f.SetWriteDeadline(time.Now().Add(c.s.writeTime))
		if c.s.over() { // otherwise Close sets the deadline
			_ = c.f.SetWriteDeadline(time.Now().Add(partingGap))
		}
		if _, c.err = c.f.Write(c.out.Next(block)); c.err == nil {
			c.s.written.Add(1)
		}
	}
	if c.out.Len() == 0 && c.out.Cap() > 4*block {
		c.out = bytes.Buffer{}
	}
	return c.err
}

// gone reports whether the client is gone.
func (c *conn) gone() bool { return c.err != nil || gone(c.f) }
