package proc

import (
	"cmp"
	"fmt"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/spool"
)

const (
	soon    = 50 * time.Millisecond  // how often to look for the exit of a task that cannot be polled
	linger  = time.Second            // how long to read after a task's exit while other processes hold its pipes
	parting = 100 * time.Millisecond // how long to read after those have been killed

	pipeSize   = 64 << 10 // the capacity of a new pipe
	splicePipe = 1 << 20  // of one that a file is spliced to, which takes an eighth less time; for copies the processor's cache is too small
)

// stream is one of the two outputs of a task.
type stream struct {
	fd int // our end of the pipe; -1 if it is closed or there is none
	spool.Stream
}

// pipes makes the child's standard streams.
func (p *process) pipes() error {
	null := uintptr(p.null)
	p.child = [3]uintptr{null, null, null}
	p.files = p.filesOf(p.Task)
	if p.room.Add(-p.files) < 0 {
		return syscall.EMFILE
	}
	t := p.Task
	worker := t.Protocol != task.NoProtocol
	switch {
	case worker || t.Stdin != nil || t.Block != nil:
		if err := p.pipe(0, &p.in); err != nil {
			return err
		}
		if !worker {
			p.openInput(t)
		}
	case p.terminal != nil:
		// A descriptor of its own: a task may change its flags.
		fd, err := openTerminal()
		if err != nil {
			return fmt.Errorf("open %s: %w", terminalName, err)
		}
		p.child[0] = uintptr(fd)
	}
	toFile := t.Makes != nil && t.Makes.Stdout
	if toFile {
		if err := p.openTarget(); err != nil {
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
	if worker || !toFile && (p.Plan.Streams() || p.Plan.Keeps() || p.PTY || p.Idle) {
		if err := p.pipe(1, &p.out.fd); err != nil {
			return err
		}
	}
	return p.pipe(2, &p.err.fd)
}

// target returns the file that is the child's stdout, or "".
func (p *process) target() string {
	t := p.Task
	if t.Makes == nil || !t.Makes.Stdout {
		return ""
	}
	return t.PathIn(p.Dir, t.Makes.TempName(t.Makes.Targets[len(t.Makes.Targets)-1].Path))
}

// openTarget makes the file that is the child's stdout.
func (p *process) openTarget() error {
	name := p.target()
	fd, err := syscall.Open(name, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_TRUNC|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, cmp.Or(p.Task.Makes.Mode, 0o666))
	if err != nil {
		return fmt.Errorf("make %s: %w", name, err)
	}
	p.child[1] = uintptr(fd)
	return nil
}

// pipe makes the pipe of the child's stream n, with ours as the other end; or a
// terminal for the output of a task that is to have one.
func (p *process) pipe(n int, ours *int) error {
	if n > 0 && p.size > 0 {
		return p.pty(n, ours)
	}
	var ends [2]int
	if err := kernel.Pipe(&ends); err != nil {
		return err
	}
	if n == 0 {
		ends[0], ends[1] = ends[1], ends[0]
	}
	*ours, p.child[n] = ends[0], uintptr(ends[1])
	_, err := unix.FcntlInt(uintptr(*ours), unix.F_SETFL, unix.O_NONBLOCK) // while a task does not read, crew reads its output
	return err
}

// closeChildEnds closes the child's ends of the pipes and, only with all, those of terminals:
// once nobody has one open, it loses what it holds, but on Linux.
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

// holds reports whether terminals of the child are still to be closed.
func (p *process) holds() bool { return p.child != [3]uintptr{} }

// closeOurEnds closes what is still open on our side.
func (p *process) closeOurEnds() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fd := range []*int{&p.out.fd, &p.err.fd, &p.in, &p.pidfd} {
		kernel.Close(fd)
	}
	if p.holds() {
		p.closeChildEnds(true)
	}
	p.room.Add(p.files)
	p.files = 0
}

// keep sets where the output of a started process is kept. Live looks there from
// groups.add on.
func (p *process) keep() {
	if p.Plan.Keeps() {
		p.out.Kept, p.err.Kept = p.Store.Buffer(), p.Store.Buffer()
		p.kept = [...]*spool.Buffer{p.out.Kept, p.err.Kept}
	}
}

// openWriters sets where the output of a started process is streamed to.
func (p *process) openWriters() {
	if p.Plan.Show == task.ShowLines {
		p.out.To, p.err.To = p.Open(p.Attempt)
	}
}

// read reads once from a pipe, and closes it at its end. It borrows a buffer only for that: a
// thousand tasks that sleep need none.
func (p *process) read(s *stream, revents int16) {
	if revents == 0 {
		return
	}
	buf := p.buffers.Get().(*[pipeSize]byte)
	defer p.buffers.Put(buf)
	p.hear()    // before silence can find the pipe empty
	p.mu.Lock() // once it is closed, resize must not use it
	n := kernel.Read(&s.fd, buf[:])
	p.mu.Unlock()
	if n > 0 {
		if err := s.Write(buf[:n]); err != nil {
			p.fault = err
		}
	}
}

// capture reads the task's output until all pipes are closed, or until the leader
// has exited and processes it left behind have held them open for too long.
func (p *process) capture() {
	defer p.closeOurEnds()
	for over := false; !over && p.fault == nil && (p.out.fd >= 0 || p.err.fd >= 0 || p.in >= 0); {
		over = p.turn()
	}
}

// turn polls once and handles the events. It returns true when it is time to give
// up.
func (p *process) turn() (over bool) {
	wait := time.Hour
	if !p.exited && p.exit() < 0 {
		if wait = soon; kernel.Exited(p.pid, unix.WNOHANG) {
			p.sawExit()
		}
	}
	switch {
	case p.exited && !time.Now().Before(p.deadline):
		if p.leaked {
			return true
		}
		p.mu.Lock()
		p.kill()
		p.mu.Unlock()
		p.leaked, p.deadline, wait = true, time.Now().Add(parting), parting
	case p.exited && p.holds():
		wait = 0
	case p.exited:
		wait = time.Until(p.deadline)
	case p.pin != nil && time.Since(p.started) >= kernel.Brief:
		p.unpin()
	case p.pin != nil:
		wait = kernel.Brief
	}
	set := [...]unix.PollFd{ // poll(2) ignores negative descriptors
		{Fd: int32(p.out.fd), Events: unix.POLLIN},
		{Fd: int32(p.err.fd), Events: unix.POLLIN},
		{Fd: int32(p.in), Events: unix.POLLOUT},
		{Fd: int32(p.pidfd), Events: unix.POLLIN},
	}
	n, err := p.Poll(set[:], wait)
	if err != nil { // EINTR, or no memory for a moment
		return false
	}
	if n == 0 && p.exited && p.holds() {
		p.closeChildEnds(true)
	}
	p.read(&p.out, set[0].Revents)
	p.read(&p.err, set[1].Revents)
	switch in := set[2].Revents; {
	case in&unix.POLLOUT != 0:
		p.feed()
	case in != 0:
		kernel.Close(&p.in)
	}
	if set[3].Revents != 0 {
		p.sawExit()
	}
	return false
}

// exit returns a descriptor that is readable once the leader has exited, or -1 if there is
// none to be had.
func (p *process) exit() int {
	if p.pidfd < 0 {
		p.pidfd, _ = kernel.OpenExit(p.pid)
	}
	return p.pidfd
}

// sawExit limits the time to read the rest of the output.
func (p *process) sawExit() {
	p.mu.Lock()
	p.exited = true
	p.mu.Unlock()
	p.deadline = time.Now().Add(linger)
	kernel.Close(&p.pidfd)
	kernel.Close(&p.in)
}

// handOver gives what was captured to the result.
func (p *process) handOver(r *task.Result) {
	r.Leaked, r.Left, r.Daemons = p.leaked, strings.Join(p.left, ", "), strings.Join(p.daemons, ", ")
	spool.HandOver(r, &p.out.Stream, &p.err.Stream)
	p.out.End()
	p.err.End()
}
