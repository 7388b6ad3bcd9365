package proc

import (
	"io"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/linux"
	"crew/runner/spool"
	"crew/runner/task"
)

const (
	// soon is how long an attempt is read from before its exit is watched for
	// with a descriptor of its own: most tasks never pay for one.
	soon = 50 * time.Millisecond
	// linger is how long the output of a task that has exited is waited for
	// while something it left behind holds the pipe.
	linger = time.Second
	// parting is how long the rest is read once that something was killed.
	parting = 100 * time.Millisecond
	// tailSize is how much of a stderr that is not kept is remembered.
	tailSize = 4 << 10
	// pipeSize is what a new pipe takes without a reader.
	pipeSize = 64 << 10
	// leastRoom is how much room a buffer of output must have to be read into
	// without another buffer between.
	leastRoom = 16 << 10
)

// stream is one of the two outputs of a task.
type stream struct {
	fd       int            // our end of its pipe; -1 when it is closed or there is none
	kept     *spool.Buffer  // nil where the result does not hold it
	to       io.WriteCloser // where it goes as it comes; nil for nowhere
	tail     []byte         // its end
	keepTail bool
}

// write passes on what was read.
func (s *stream) write(p []byte) error {
	if s.keepTail {
		s.tail = append(s.tail, p...)
		if len(s.tail) > 2*tailSize {
			s.tail = append(s.tail[:0], s.tail[len(s.tail)-tailSize:]...)
		}
	}
	if s.to != nil {
		// A sink that cannot write tells the run by itself. The task is read on
		// until it is ended.
		_, _ = s.to.Write(p)
	}
	if s.kept != nil {
		_, err := s.kept.Write(p)
		return err
	}
	return nil
}

// pipes makes what the child gets as its three standard streams.
func (p *process) pipes() (files [3]uintptr, err error) {
	null := p.local.null
	p.child = [3]int{null, null, null}
	if in := p.attempt.Task.Stdin; in != nil {
		if p.child[0], p.in, err = inPipe(in); err != nil {
			p.child[0] = null
			return files, err
		}
		p.unread = in
		p.feed()
	}
	switch plan := p.local.cfg.Plan; {
	case plan.Show == task.ShowRaw:
		p.child[1], p.child[2] = 1, 2
	case plan.Streams() || plan.Keeps():
		if err = p.outPipe(&p.out, 1); err == nil {
			err = p.outPipe(&p.err, 2)
		}
	default:
		err = p.outPipe(&p.err, 2)
	}
	for i, fd := range p.child {
		files[i] = uintptr(fd)
	}
	return files, err
}

func (p *process) outPipe(s *stream, n int) error {
	var ends [2]int
	if err := pipe(&ends); err != nil {
		return err
	}
	s.fd, p.child[n] = ends[0], ends[1]
	return nil
}

// pipe makes a pipe whose ends no child inherits.
func pipe(p *[2]int) error { return unix.Pipe2(p[:], unix.O_CLOEXEC) }

// inPipe makes the pipe of a task's stdin. Our end does not block: a task that
// never reads must not keep crew from reading it.
func inPipe(content []byte) (read, write int, err error) {
	var ends [2]int
	if err := pipe(&ends); err != nil {
		return -1, -1, err
	}
	if err := syscall.SetNonblock(ends[1], true); err != nil {
		_ = syscall.Close(ends[0])
		_ = syscall.Close(ends[1])
		return -1, -1, err
	}
	return ends[0], ends[1], nil
}

// closeChildEnds closes what only the child needs.
func (p *process) closeChildEnds() {
	for i, fd := range p.child {
		if fd > 2 && fd != p.local.null {
			_ = syscall.Close(fd)
		}
		p.child[i] = -1
	}
}

// closeOurEnds closes all that is still open on our side.
func (p *process) closeOurEnds() {
	for _, fd := range []*int{&p.out.fd, &p.err.fd, &p.in, &p.pidfd} {
		closeFD(fd)
	}
}

func closeFD(fd *int) {
	if *fd >= 0 {
		_ = syscall.Close(*fd)
		*fd = -1
	}
}

// openWriters decides where the output of a started process goes.
func (p *process) openWriters() {
	cfg := &p.local.cfg
	if cfg.Plan.Show == task.ShowLines {
		p.out.to, p.err.to = cfg.Open(p.attempt)
	}
	if cfg.Plan.Keeps() {
		p.out.kept, p.err.kept = cfg.Store.Buffer(), cfg.Store.Buffer()
	} else {
		p.err.keepTail = true
	}
}

// feed writes to the task's stdin what its pipe takes.
func (p *process) feed() {
	for len(p.unread) > 0 {
		n, err := syscall.Write(p.in, p.unread)
		if err == syscall.EINTR {
			continue
		}
		if err == syscall.EAGAIN {
			return
		}
		if err != nil {
			break // the task does not read it, which is its own affair
		}
		p.unread = p.unread[n:]
	}
	p.unread = nil
	closeFD(&p.in)
}

// capture reads the task's output until its end: until all pipes are closed,
// or the leader has exited and what it left behind holds them for too long.
func (p *process) capture() {
	defer p.closeOurEnds()
	w := watch{p: p, wait: soon}
	if p.pin != nil {
		w.wait = linux.Brief
	}
	for p.fault == nil && (p.out.fd >= 0 || p.err.fd >= 0 || p.in >= 0) {
		if p.pin != nil && time.Since(p.started) >= linux.Brief {
			p.unpin()
		}
		ready, over := w.poll()
		if over {
			p.leaked = true
			return
		}
		for _, f := range ready {
			p.handle(f)
		}
	}
}

// handle does what a ready descriptor asks for.
func (p *process) handle(f unix.PollFd) {
	if f.Revents == 0 || f.Fd < 0 {
		return
	}
	switch int(f.Fd) {
	case p.in:
		if f.Revents&unix.POLLOUT == 0 {
			closeFD(&p.in)
			return
		}
		p.feed()
	case p.out.fd:
		p.read(&p.out, f.Revents)
	case p.err.fd:
		p.read(&p.err, f.Revents)
	}
}

// read takes what one pipe has. The buffer is borrowed for the read alone: a
// thousand sleepers need none.
func (p *process) read(s *stream, revents int16) {
	if revents&unix.POLLIN == 0 {
		closeFD(&s.fd) // hung up, nothing left in it
		p.pin.Yield()  // the task is about to close the other, too
		return
	}
	if s.kept != nil && s.to == nil {
		if room := s.kept.Room(); len(room) >= leastRoom {
			s.kept.Grew(p.readInto(room, s))
			return
		}
	}
	buf := p.local.buffers.Get().(*[pipeSize]byte)
	defer p.local.buffers.Put(buf)
	if n := p.readInto(buf[:], s); n > 0 {
		if err := s.write(buf[:n]); err != nil {
			p.fault = err
		}
	}
}

// readInto reads once from one pipe, and closes that at its end.
func (p *process) readInto(buf []byte, s *stream) int {
	n, err := syscall.Read(s.fd, buf)
	switch {
	case err == syscall.EINTR || err == syscall.EAGAIN:
		return 0
	case err != nil || n == 0:
		closeFD(&s.fd)
		return 0
	}
	p.pin.Yield() // more comes, and is less work together
	return n
}

// watch waits for a process's descriptors and, when the process takes longer,
// for its exit.
type watch struct {
	p    *process
	set  [4]unix.PollFd
	wait time.Duration // how long the next poll waits; negative is for ever

	exited   bool
	killed   bool
	deadline time.Time // once exited: when to give up
}

// poll returns the ready descriptors, or over when the leader has exited and
// its time to be read is up.
func (w *watch) poll() (ready []unix.PollFd, over bool) {
	p := w.p
	if w.exited && !time.Now().Before(w.deadline) {
		if over = w.idle(); over {
			return nil, true
		}
	}
	n := 0
	add := func(fd int, events int16) {
		if fd >= 0 {
			w.set[n] = unix.PollFd{Fd: int32(fd), Events: events}
			n++
		}
	}
	add(p.out.fd, unix.POLLIN)
	add(p.err.fd, unix.POLLIN)
	add(p.in, unix.POLLOUT)
	if !w.exited {
		add(p.pidfd, unix.POLLIN)
	}
	timeout := -1
	if w.exited {
		w.wait = max(time.Until(w.deadline), 0)
	}
	if w.wait >= 0 {
		timeout = int((w.wait + time.Millisecond - 1) / time.Millisecond)
	}
	got, err := p.local.poll(w.set[:n], timeout)
	switch {
	case err != nil: // EINTR, or no memory for a moment
		return nil, false
	case got == 0:
		return nil, w.idle()
	}
	if last := w.set[n-1]; p.pidfd >= 0 && int(last.Fd) == p.pidfd && last.Revents != 0 {
		w.sawExit()
	}
	return w.set[:n], false
}

// idle is what a poll without any event leads to; it says whether all is over.
func (w *watch) idle() bool {
	p := w.p
	switch {
	case w.exited && w.killed:
		return true
	case w.exited:
		// What the task left behind in its group goes with it. The leader is
		// not reaped yet, so the id is still the group's.
		p.signal(syscall.SIGKILL)
		p.leaked = true
		w.killed, w.deadline = true, time.Now().Add(parting)
	case w.wait == linux.Brief:
		w.wait = soon
	case p.pidfd < 0:
		if p.pidfd = openPidfd(p.pid); p.pidfd >= 0 {
			w.wait = -1
		} else if exitedYet(p.pid) {
			w.sawExit()
		}
	}
	return false
}

// sawExit starts the time that what is left of the output may take.
func (w *watch) sawExit() {
	w.exited, w.deadline = true, time.Now().Add(linger)
	closeFD(&w.p.pidfd)
	w.p.mu.Lock()
	w.p.exited = true
	w.p.mu.Unlock()
	closeFD(&w.p.in)
}

// handOver gives what was captured to the result.
func (p *process) handOver(r *task.Result) {
	r.Leaked, r.Fault = p.leaked, p.fault
	r.Stdout, r.Stderr = p.out.output(), p.err.output()
	if n := len(p.err.tail); n > 0 {
		r.Tail = p.err.tail[max(0, n-tailSize):]
	}
	for _, w := range []io.WriteCloser{p.out.to, p.err.to} {
		if w != nil {
			_ = w.Close() // the sink has its own word with the run
		}
	}
}

// output is what was kept, or nil where that is nothing.
func (s *stream) output() task.Output {
	if s.kept == nil {
		return nil
	}
	if s.kept.Len() == 0 {
		_ = s.kept.Close()
		return nil
	}
	return s.kept
}
