package proc

import (
	"errors"
	"fmt"
	"syscall"

	"crew/runner/exec/kernel"

	"golang.org/x/sys/unix"
)

// errNoPTY means that all pseudo-terminals are in use.
var errNoPTY = errors.New("all pseudo-terminals are in use (sysctl kernel.pty.max)")

// The size of the tasks' terminals if crew has none.
const usualRows, usualCols = 24, 80

// HasPTYs returns an error if this system has no pseudo-terminals. If all of them are in
// use, that is no error.
func HasPTYs() error {
	ours, theirs, err := openPTY()
	kernel.Close(&ours)
	kernel.Close(&theirs)
	if scarce(err) {
		return nil
	}
	return err
}

// openPTY opens a pseudo-terminal that passes on what is written to it as it is.
// theirs is for writing only, so that a program that tries to read, as pagers do, fails
// instead of waiting for ever. It does not become a controlling terminal, so a task's
// /dev/tty is crew's, and no signal comes from it.
func openPTY() (ours, theirs int, err error) {
	ours, theirs, err = kernel.OpenPTY()
	if errors.Is(err, syscall.ENOSPC) {
		err = errNoPTY
	}
	var modes *unix.Termios
	if err == nil {
		modes, err = kernel.Modes(ours)
	}
	if err == nil {
		modes.Oflag &^= unix.OPOST // which would write \r\n for \n
		err = kernel.SetModes(ours, modes)
	}
	if err != nil {
		err = fmt.Errorf("set up a pseudo-terminal: %w", err)
	}
	return ours, theirs, err
}

// pty makes a pseudo-terminal the child's stream n, with ours as the other end.
func (p *process) pty(n int, ours *int) error {
	fd, theirs, err := openPTY()
	*ours = fd
	if theirs >= 0 {
		p.child[n] = uintptr(theirs)
	}
	if err == nil {
		setSize(fd, p.size)
	}
	return err
}

// winSize is the size of a terminal, as rows<<16 + columns; 0 for none.
type winSize uint32

func setSize(fd int, size winSize) {
	_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(size >> 16), Col: uint16(size)})
}

// terminalSize returns the size of crew's terminal, or the usual one.
func terminalSize() winSize {
	tty, _ := openTerminal()
	defer kernel.Close(&tty)
	for _, fd := range [...]int{2, 1, tty} {
		if ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil && ws.Row > 0 && ws.Col > 0 {
			return winSize(ws.Row)<<16 + winSize(ws.Col)
		}
	}
	return usualRows<<16 + usualCols
}

// followSize gives the tasks' terminals the size that crew's terminal has now. crew
// calls it once a second, which is soon enough to do without a handler for SIGWINCH.
func (l *Local) followSize() {
	if !l.PTY {
		return
	}
	size := terminalSize()
	l.size.Store(uint32(size))
	l.groups.each(func(p *process) { p.resize(size) })
}

// resize sets the size of the task's terminals, and tells the task if it has changed.
// The kernel tells only a foreground process group, and these terminals have none.
func (p *process) resize(size winSize) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size == size || p.size == 0 || p.reaped {
		return
	}
	p.size = size
	for _, fd := range [...]int{p.out.fd, p.err.fd} {
		if fd >= 0 {
			setSize(fd, size)
		}
	}
	_ = syscall.Kill(-p.pid, syscall.SIGWINCH)
}
