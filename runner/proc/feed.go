package proc

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/task"
)

// input is what is still to be written to a task's stdin.
type input struct {
	text []byte
	rest []byte // behind text

	file      *os.File // the range of it that comes last
	off, left int64
	broken    error // why the range cannot be read
}

// openInput makes the pipe of the child's stdin.
func (p *process) openInput(t *task.Task) error {
	if err := p.pipe(0, &p.in); err != nil {
		return err
	}
	// While a task does not read, crew must go on to read its output.
	if err := syscall.SetNonblock(p.in, true); err != nil {
		return err
	}
	if b := t.Block; b != nil {
		if b.Len > pipeSize {
			_, _ = unix.FcntlInt(uintptr(p.in), unix.F_SETPIPE_SZ, splicePipe)
		}
		p.unread = input{text: b.Head, rest: b.Text, file: b.File, off: b.Off, left: b.Len}
		return nil
	}
	p.unread.text = t.Stdin
	p.feed()
	return nil
}

// feed writes as much to the task's stdin as the pipe takes.
func (p *process) feed() {
	in := &p.unread
	for len(in.text) > 0 || len(in.rest) > 0 || in.left > 0 {
		var n int
		var err error
		switch {
		case len(in.text) > 0:
			if n, err = syscall.Write(p.in, in.text); n > 0 {
				in.text = in.text[n:]
			}
		case len(in.rest) > 0:
			in.text, in.rest = in.rest, nil
		default:
			err = p.splice()
		}
		if err == syscall.EAGAIN {
			return
		}
		if err != nil && err != syscall.EINTR {
			break // the task does not read it all, as it may
		}
	}
	in.text, in.rest, in.left = nil, nil, 0
	closeFD(&p.in)
	if in.broken != nil {
		p.end(task.StartFailed, syscall.SIGKILL)
	}
}

// splice moves a part of the file to the task's stdin without copying it, if the file
// system can do that.
func (p *process) splice() error {
	in := &p.unread
	fd := int(in.file.Fd())
	n, err := unix.Splice(fd, &in.off, p.in, nil, int(min(in.left, 1<<30)), unix.SPLICE_F_NONBLOCK)
	if err == syscall.EINVAL {
		n, err = p.copy(fd)
	}
	switch {
	case n > 0:
		in.left -= n
		return nil
	case err == nil:
		err = syscall.ENODATA
		in.broken = errors.New("the file of its block has become shorter")
	case err != syscall.EAGAIN && err != syscall.EINTR && err != syscall.EPIPE:
		in.broken = fmt.Errorf("read its block: %w", err)
	}
	return err
}

// copy is splice for other file systems.
func (p *process) copy(fd int) (int64, error) {
	buf := p.local.buffers.Get().(*[pipeSize]byte)
	defer p.local.buffers.Put(buf)
	n, err := syscall.Pread(fd, buf[:min(p.unread.left, pipeSize)], p.unread.off)
	if n > 0 {
		n, err = syscall.Write(p.in, buf[:n])
	}
	if n > 0 {
		p.unread.off += int64(n)
	}
	return int64(n), err
}
