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

// The size of the tasks' terminals if crew has no terminal.
const defaultRows, defaultCols = 24, 80

// HasPTYs returns an error if this system has no pseudo-terminals. It returns nil if all of them
// are in use.
func HasPTYs() error {
	ours, theirs, err := openPTY()
	kernel.Close(&ours)
	kernel.Close(&theirs)
	if isShortage(err) {
		return nil
	}
	return err
}

// openPTY opens a pseudo-terminal that passes on what tasks write unchanged. theirs is write-only,
// so that a program that tries to read, as pagers do, fails instead of waiting forever. The
// pseudo-terminal does not become a controlling terminal, so a task's /dev/tty is crew's, and the
// pseudo-terminal sends no signals.
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
		modes.Oflag &^= unix.OPOST // it would turn \n into \r\n
		err = kernel.SetModes(ours, modes)
	}
	if err != nil {
		err = fmt.Errorf("set up a pseudo-terminal: %w", err)
	}
	return ours, theirs, err
}

// openTerminalStream opens a pseudo-terminal as the child's stream n, and stores crew's end in ours.
func (p *process) openTerminalStream(n int, ours *int) error {
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

// winSize is the size of a terminal, rows<<16 + columns; 0 means that there is no terminal.
type winSize uint32

func setSize(fd int, size winSize) {
	_ = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(size >> 16), Col: uint16(size)})
}

// terminalSize returns the size of crew's terminal, or the default size.
func terminalSize() winSize {
	tty, _ := openTerminal()
	defer kernel.Close(&tty)
	for _, fd := range [...]int{2, 1, tty} {
		if ws, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ); err == nil && ws.Row > 0 && ws.Col > 0 {
			return winSize(ws.Row)<<16 + winSize(ws.Col)
		}
	}
	return defaultRows<<16 + defaultCols
}

// followSize gives the tasks' terminals the current size of crew's terminal. It is called once a
// second, which is soon enough and needs no handler for SIGWINCH.
func (l *Local) followSize() {
	if !l.PTY {
		return
	}
	size := terminalSize()
	l.size.Store(uint32(size))
	l.groups.each(func(p *process) { p.resize(size) })
}

// resize sets the size of the task's terminals, and notifies the task if it has changed.
// The kernel notifies only a foreground process group, and these terminals have none.
func (p *process) resize(size winSize) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.size == size || p.size == 0 || p.reaped {
		return
	}
	p.size = size
	for _, fd := range [...]int{p.out, p.err} {
		if fd >= 0 {
			setSize(fd, size)
		}
	}
	_ = syscall.Kill(-p.pid, syscall.SIGWINCH)
}
