package proc

import (
	"cmp"
	"fmt"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/spool"
)

const (
	exitPollInterval = 50 * time.Millisecond  // how often to check for the exit of a task that has no exit descriptor
	linger           = time.Second            // how long to read after a task's exit while other processes hold its pipes open
	lingerKilled     = 100 * time.Millisecond // how long to read after these processes have been killed

	pipeSize   = 64 << 10 // capacity of a new pipe
	splicePipe = 1 << 20  // capacity of a pipe that a file is spliced to: this saves an eighth of the time; with copies, it would exceed the processor's cache
)

// openStreams opens the child's standard streams.
func (p *process) openStreams() error {
	null := uintptr(p.null)
	p.child = [3]uintptr{null, null, null}
	p.files = p.filesOf(p.Task)
	if p.filesRoom.Add(-p.files) < 0 {
		return syscall.EMFILE
	}
	t := p.Task
	worker := t.Protocol != task.NoProtocol
	switch {
	case worker || t.Stdin != nil || t.Block != nil:
		if err := p.openPipe(0, &p.in); err != nil {
			return err
		}
		if !worker {
			p.openInput(t)
		}
	case p.terminal != nil:
		// The task gets a descriptor of its own, since it may change the flags.
		fd, err := openTerminal()
		if err != nil {
			return fmt.Errorf("open %s: %w", terminalName, err)
		}
		p.child[0] = uintptr(fd)
	}
	toFile := p.stdoutFile() != ""
	if toFile {
		if err := p.openStdoutFile(); err != nil {
			return err
		}
	}
	if p.Plan.Show == task.ShowRaw {
		if p.child[2] = 2; !toFile {
			p.child[1] = 1
		}
		return nil
	}
	if !worker {
		p.size = winSize(p.Local.size.Load())
	}
	if worker || !toFile && (p.Plan.Streams() || p.Plan.Keeps() || p.PTY || p.Limit.Idle > 0 || p.Plan.Bound.Bytes > 0) {
		if err := p.openPipe(1, &p.out); err != nil {
			return err
		}
	}
	return p.openPipe(2, &p.err)
}

// stdoutFile returns the name of the file that is the child's stdout, or "".
func (p *process) stdoutFile() string {
	t := p.Task
	if t.Makes == nil || !t.Makes.Stdout {
		return ""
	}
	return t.PathIn(p.Dir, t.Makes.TempName(t.Makes.Targets[len(t.Makes.Targets)-1].Path))
}

// openStdoutFile creates the file that is the child's stdout.
func (p *process) openStdoutFile() error {
	name := p.stdoutFile()
	fd, err := syscall.Open(name, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, cmp.Or(p.Task.Makes.Mode, 0o666))
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	p.child[1] = uintptr(fd)
	return nil
}

// openPipe creates a pipe for the child's stream n and stores crew's end in ours. If the task's
// output is a terminal, it opens a terminal instead.
func (p *process) openPipe(n int, ours *int) error {
	if n > 0 && p.size > 0 {
		return p.openTerminalStream(n, ours)
	}
	var ends [2]int
	if err := kernel.Pipe(&ends); err != nil {
		return err
	}
	if n == 0 {
		ends[0], ends[1] = ends[1], ends[0]
	}
	*ours, p.child[n] = ends[0], uintptr(ends[1])
	_, err := unix.FcntlInt(uintptr(*ours), unix.F_SETFL, unix.O_NONBLOCK) // crew must read the output of a task that does not read its input
	return err
}

// closeChildEnds closes the child's ends of the pipes. It closes the ends of terminals only if all is set:
// on systems other than Linux, a terminal loses unread output once its child's end is closed everywhere.
func (p *process) closeChildEnds(all bool) {
	for n, fd := range p.child {
		if !all && n > 0 && p.size > 0 {
			continue
		}
		if fd > 2 && int(fd) != p.null {
			_ = syscall.Close(int(fd))
		}
		p.child[n] = 0
	}
}

// holdsTerminals reports whether the child's ends of terminals are still open.
func (p *process) holdsTerminals() bool { return p.child != [3]uintptr{} }

// closeOurEnds closes all descriptors that are still open.
func (p *process) closeOurEnds() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fd := range []*int{&p.out, &p.err, &p.in, &p.pidfd} {
		kernel.Close(fd)
	}
	if p.holdsTerminals() {
		p.closeChildEnds(true)
	}
	p.filesRoom.Add(p.files)
	p.files = 0
}

// readOutput reads once from a pipe, and closes it at its end. It holds a buffer only while it
// reads, so that thousands of idle tasks need none.
func (p *process) readOutput(fd *int, s *spool.Stream, revents int16) {
	if revents == 0 {
		return
	}
	buf := p.buffers.Get().(*[pipeSize]byte)
	defer p.buffers.Put(buf)
	p.noteOutput() // before the pipe is empty, or silence could miss the output
	p.mu.Lock()    // resize must not use a closed descriptor
	n := kernel.Read(fd, buf[:])
	p.mu.Unlock()
	if n > 0 {
		_, _ = s.Write(buf[:n])
		if s.Room.Ends() {
			p.terminate(task.TooMuch, false)
		}
	}
}

// capture reads the task's output until all pipes are closed, or until the leader
// has exited and processes that it left behind have held the pipes open for too long.
func (p *process) capture() {
	defer p.closeOurEnds()
	for over := false; !over && p.Fault() == nil && (p.out >= 0 || p.err >= 0 || p.in >= 0); {
		over = p.pollOnce()
	}
}

// pollOnce polls once and handles the events. It returns true if capture should stop.
func (p *process) pollOnce() (over bool) {
	wait := time.Hour
	if !p.exited && p.exitFD() < 0 {
		if wait = exitPollInterval; kernel.Exited(p.pid, unix.WNOHANG) {
			p.noteExit()
		}
	}
	late := p.exited && !time.Now().Before(p.deadline)
	switch {
	case late, p.exited && p.holdsTerminals():
		wait = 0
	case p.exited:
		wait = time.Until(p.deadline)
	case p.pin != nil && time.Since(p.started) >= kernel.Brief:
		p.unpin()
	case p.pin != nil:
		wait = kernel.Brief
	}
	set := [...]unix.PollFd{ // poll(2) ignores negative descriptors
		{Fd: int32(p.out), Events: unix.POLLIN},
		{Fd: int32(p.err), Events: unix.POLLIN},
		{Fd: int32(p.in), Events: unix.POLLOUT},
		{Fd: int32(p.pidfd), Events: unix.POLLIN},
	}
	n, err := p.Poll(set[:], wait)
	if err != nil { // EINTR, or a short lack of memory
		return false
	}
	switch {
	case p.exited && p.holdsTerminals():
		if n == 0 || late {
			p.closeChildEnds(true)
		}
	case late && !isOpen(set[0]) && !isOpen(set[1]): // only crew itself was late
	case late && p.leaked:
		return true
	case late:
		p.mu.Lock()
		p.killLocked()
		p.mu.Unlock()
		p.leaked, p.deadline = true, time.Now().Add(lingerKilled)
	}
	p.readOutput(&p.out, &p.Out, set[0].Revents)
	p.readOutput(&p.err, &p.Err, set[1].Revents)
	switch in := set[2].Revents; {
	case in&unix.POLLOUT != 0:
		p.writeInput()
	case in != 0:
		kernel.Close(&p.in)
	}
	if set[3].Revents != 0 {
		p.noteExit()
	}
	return false
}

// isOpen reports whether a process can still write to the pipe or terminal in f.
func isOpen(f unix.PollFd) bool { return f.Fd >= 0 && f.Revents&unix.POLLHUP == 0 }

// exitFD returns a descriptor that becomes readable when the leader exits, or -1 if the system
// cannot provide one.
func (p *process) exitFD() int {
	if p.pidfd < 0 {
		p.pidfd, _ = kernel.OpenExit(p.pid)
	}
	return p.pidfd
}

// noteExit records that the leader has exited, and limits the time to read the rest of the output.
func (p *process) noteExit() {
	p.mu.Lock()
	p.exited = true
	p.mu.Unlock()
	p.deadline = time.Now().Add(linger)
	kernel.Close(&p.pidfd)
	kernel.Close(&p.in)
}
