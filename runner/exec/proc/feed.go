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

// Input is the rest of a standard input, still to be written.
type Input struct {
	text []byte
	rest []byte // behind text

	file      *os.File // the range of it that comes last
	off, left int64
}

// InputOf returns what a task reads, with or without the header of its block.
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

// Write writes a part to a pipe and returns its size, which is 0 if nothing is left. If
// the file has become shorter, it returns io.ErrUnexpectedEOF. Where a file system has
// no splice(2), the part goes through buf.
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

// openInput begins to write to the child's stdin.
func (p *process) openInput(t *task.Task) {
	p.unread = InputOf(t, true)
	if b := t.Block; b == nil {
		p.feed()
	} else if b.Len > pipeSize {
		kernel.SetPipeSize(p.in, splicePipe)
	}
}

// feed writes as much to the task's stdin as the pipe takes.
func (p *process) feed() {
	var buf []byte
	if p.unread.left > 0 {
		b := p.buffers.Get().(*[pipeSize]byte)
		defer p.buffers.Put(b)
		buf = b[:]
	}
	n, err := int64(1), error(nil)
	for n > 0 && err == nil || err == syscall.EINTR {
		n, err = p.unread.Write(p.in, buf)
	}
	switch err {
	case syscall.EAGAIN:
		return
	case nil, syscall.EPIPE: // the task need not read it all
	case io.ErrUnexpectedEOF:
		p.broken = errors.New("the file of its block has become shorter")
	default:
		p.broken = fmt.Errorf("read its block: %w", err)
	}
	p.unread = Input{}
	kernel.Close(&p.in)
	if p.broken != nil {
		p.end(task.StartFailed, syscall.SIGKILL)
	}
}
