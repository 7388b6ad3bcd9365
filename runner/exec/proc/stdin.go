package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// Input is the part of a task's standard input that has not been written yet.
type Input struct {
	text []byte
	rest []byte // follows text

	file      *os.File // left bytes of it, from offset off on, follow rest
	off, left int64
}

// InputOf returns the standard input of t, with or without the header of its block.
func InputOf(t *task.Task, header bool) Input {
	b := t.Block
	if b == nil {
		return Input{text: t.Stdin}
	}
	in := Input{rest: b.Text, file: b.File, off: b.Off, left: b.Len}
	if header {
		in.text = b.Head
	}
	return in
}

// Write writes a part of the input to a pipe and returns its size, or 0 if nothing is left. If
// the file has become shorter, it returns io.ErrUnexpectedEOF. If the file system does not
// support splice(2), it copies the part through buf.
func (in *Input) Write(fd int, buf []byte) (n int64, err error) {
	if len(in.text) == 0 {
		in.text, in.rest = in.rest, nil
	}
	if len(in.text) > 0 {
		k, err := syscall.Write(fd, in.text)
		in.text = in.text[max(k, 0):]
		return int64(max(k, 0)), err
	}
	if in.left == 0 {
		return 0, nil
	}
	n, err = kernel.Splice(int(in.file.Fd()), in.off, fd, int(min(in.left, 1<<30)))
	if err == syscall.EINVAL {
		var k int
		if k, err = syscall.Pread(int(in.file.Fd()), buf[:min(in.left, int64(len(buf)))], in.off); k > 0 {
			k, err = syscall.Write(fd, buf[:k])
		}
		n = int64(k)
	}
	if n == 0 && err == nil {
		err = io.ErrUnexpectedEOF
	}
	n = max(n, 0)
	in.off += n
	in.left -= n
	return n, err
}

// openInput sets the input of the child. It writes what fits into the pipe, unless the input is a block,
// which pollOnce writes later.
func (p *process) openInput(t *task.Task) {
	p.input = InputOf(t, true)
	if b := t.Block; b == nil {
		p.writeInput()
	} else if b.Len > pipeSize {
		kernel.SetPipeSize(p.in, splicePipe)
	}
}

// writeInput writes to the task's stdin until the pipe is full. At the end of the input it closes the
// pipe. If the input cannot be read, it also kills the task.
func (p *process) writeInput() {
	var buf []byte
	if p.input.left > 0 {
		b := p.buffers.Get().(*[pipeSize]byte)
		defer p.buffers.Put(b)
		buf = b[:]
	}
	n, err := int64(1), error(nil)
	for n > 0 && err == nil || err == syscall.EINTR {
		n, err = p.input.Write(p.in, buf)
	}
	switch err {
	case syscall.EAGAIN:
		return
	case nil, syscall.EPIPE: // the task need not read all of its input
	case io.ErrUnexpectedEOF:
		p.inputErr = errors.New("the file of its block has become shorter")
	default:
		p.inputErr = fmt.Errorf("read its block: %w", err)
	}
	p.input = Input{}
	kernel.Close(&p.in)
	if p.inputErr != nil {
		p.terminate(task.StartFailed, true)
	}
}
