package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"crew/runner/control"
	"crew/runner/task"
)

const (
	batchTasks = 1000      // records of standard input in a request
	batchBytes = 256 << 10 // their size, unless one is larger
	mostRecord = 2 << 20   // bytes of a record
)

// add gives tasks to a run: records of its template or, if it has none, a command.
func (c *ctl) add() error {
	h, err := control.Find(c.run)
	if err != nil {
		return err
	}
	client, err := control.Dial(h)
	if err != nil {
		return err
	}
	defer client.Close()
	a := control.Addition{Key: c.key, After: c.after, Block: c.block}
	if !h.Values {
		if a.Dir, a.Env, err = here(); err != nil {
			return err
		}
	}
	send := func(values []task.Bytes) error {
		a := a
		switch {
		case h.Values || c.stdin:
			a.Values, a.Lines = values, !h.Values
		default:
			a.Command = values
		}
		return c.request(client, h, control.Request{Op: "add", Wait: c.wait, Add: &a}, c.added)
	}
	if c.stdin {
		delim := byte('\n')
		if c.null {
			delim = 0
		}
		err = batches(c.in, delim, send)
	} else {
		values := make([]task.Bytes, len(c.work))
		for i, v := range c.work {
			values[i] = task.Bytes(v)
		}
		err = send(values)
	}
	if err == nil && c.wait {
		err = c.waited()
	}
	return err
}

// here returns the working directory and the environment.
func here() (dir task.Bytes, env []task.Bytes, err error) {
	path, err := os.Getwd()
	if err != nil {
		return "", nil, fmt.Errorf("find the working directory: %w", err)
	}
	for _, v := range os.Environ() {
		env = append(env, task.Bytes(v))
	}
	return task.Bytes(path), env, nil
}

// batches calls send with the records of r, several at a time. It does not wait for
// more while it has some, and reads no more than a buffer ahead.
func batches(r io.Reader, delim byte, send func([]task.Bytes) error) error {
	in := bufio.NewReaderSize(r, mostRecord+1)
	var batch []task.Bytes
	size := 0
	for {
		record, err := in.ReadSlice(delim)
		if errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("a record of standard input is longer than %s", byteCount(mostRecord))
		}
		ended := err != nil
		if !ended || len(record) > 0 {
			batch = append(batch, task.Bytes(strings.TrimSuffix(string(record), string(rune(delim)))))
			size += len(record)
		}
		ahead, _ := in.Peek(in.Buffered())
		if full := size >= batchBytes || len(batch) == batchTasks; full || ended || bytes.IndexByte(ahead, delim) < 0 {
			if len(batch) > 0 {
				if err := send(batch); err != nil {
					return err
				}
			}
			batch, size = nil, 0
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ended:
			return fmt.Errorf("read standard input: %w", err)
		}
	}
}

// added takes a reply to an addition.
func (c *ctl) added(r *control.Reply) error {
	if len(r.Tasks) > 0 && !c.wait {
		return c.printNumbers(r.Tasks)
	}
	return c.output(r)
}

// waited returns how the tasks ended as an exit status, which is nil if all
// succeeded.
func (c *ctl) waited() error {
	status := statusOK
	for i := range c.ended {
		if s := taskStatus(c.ended[i].Result()); s != statusOK {
			status = s
		}
	}
	switch {
	case status == statusOK:
		return nil
	case len(c.ended) > 1:
		status = statusFailed
	}
	return exitStatus(status)
}
