//go:build (amd64 || arm64) && !crew_portable

package kernel

import (
	"math"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel/raw"
)

// Spawner starts processes as syscall.ForkExec does, but with fewer system calls. It does not reset
// signal handlers one by one (60 calls of rt_sigaction(2)). It needs no pipe to learn of a failure,
// since the child shares this process's memory until it execs. If the kernel lacks clone3(2), or a
// seccomp filter forbids it, Spawner uses ForkExec. It is safe for concurrent use.
type Spawner struct {
	noFile *[2]uint64   // limit on open files to restore in children; nil if it is unchanged
	off    atomic.Bool  // clone3(2) does not work here
	expiry atomic.Int32 // the timer of ExpireAt; 0 for none
}

// NewSpawner returns a Spawner. It resets SIGCHLD for the whole process.
func NewSpawner() *Spawner {
	s := &Spawner{}
	if first := raw.NoFile; first[0]+1 < first[1] {
		// Package syscall raises the soft limit to one less than the hard one.
		// ForkExec gives a child the old limit unless it has been set since.
		var now syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err == nil && now.Cur == first[1]-1 && now.Max == first[1] {
			s.noFile = &first
		}
	}
	// The default action of SIGCHLD is to do nothing. With the runtime's handler, each
	// child that ends would wake a thread.
	Reset(syscall.SIGCHLD)
	return s
}

// script is the list of system calls that a child makes until it execs, with all the data they point
// to. The calls hold addresses as plain numbers, which neither keep anything alive nor change when a
// stack moves. So a script must be on the heap, and be kept alive as one object.
type script struct {
	calls     []raw.Call
	path, dir *byte
	args, env []*byte

	self     int32  // the child's ID
	output   uint64 // the signal set {SIGTTOU}
	affinity unix.CPUSet
	noFile   [2]uint64
	wait     syscall.Timespec
	expiry   unix.PollFd
}

// ErrExpired is the error of Start after the time of ExpireAt.
const ErrExpired = syscall.ETIME

// ExpireAt makes Start fail with ErrExpired once the clock of SinceBoot has reached end, until it is called again.
// An end of 0 means never. The child itself looks, just before it executes its program: this process may be
// stopped anywhere before. Without clone3(2), ExpireAt has no effect.
func (s *Spawner) ExpireAt(end time.Duration) {
	fd := s.expiry.Load()
	if fd == 0 {
		made, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
		if err != nil {
			return
		}
		fd = int32(made)
		defer s.expiry.Store(fd)
	}
	_ = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(end))}, nil)
}

// Start starts a program in a process group of its own. No argument or variable may contain a NUL.
// Start uses Dir, Env and Files of attr; Files must have three elements. Sys must ask ForkExec for the
// same. If born is not nil and clone3(2) works, the kernel stores the process ID there before the
// process runs; after a failure *born is 0. A Pdeathsig of attr.Sys is sent when the calling thread
// ends; threads of crew end only with the process.
//
// If attr.Sys.Foreground is set, the child makes itself the foreground process group of the terminal
// attr.Sys.Ctty. Without clone3(2) the caller has to do that.
//
// If pin is not nil, the child's affinity is reset to all processors that the thread may use without
// the pin. Start fails with EINVAL if it cannot do that.
func (s *Spawner) Start(path string, argv []string, attr *syscall.ProcAttr, born *int32, pin *Pin) (pid int, err error) {
	if s.off.Load() {
		if pin != nil {
			return 0, syscall.EINVAL
		}
		return forkExec(path, argv, attr)
	}
	c := s.newScript(path, argv, attr, pin, 0)
	pid, err = c.spawn(born, false)
	if err == syscall.ENOSYS {
		s.off.Store(true)
		return s.Start(path, argv, attr, born, pin)
	}
	if err != nil {
		return 0, err
	}
	if err = c.err(); err != nil {
		if born != nil {
			atomic.StoreInt32(born, 0) // the ID is free once the child is reaped
		}
		Wait(pid, nil, nil)
		return 0, err
	}
	return pid, nil
}

// spawn starts the child as raw.Spawn does. It fails with ENOSYS if clone3(2) does not work here.
func (c *script) spawn(born *int32, async bool) (pid int, err error) {
	pid, errno := raw.Spawn(c.calls, born, &c.self, async)
	runtime.KeepAlive(c)
	switch err := syscall.Errno(errno); err {
	case 0:
		return pid, nil
	case syscall.EPERM, syscall.EINVAL:
		return 0, syscall.ENOSYS
	default:
		return 0, err
	}
}

// newScript returns the script of a child. It must not be inlined, so that the script is on the heap.
// With a delay, the child closes all other descriptors and waits before it execs.
//
//go:noinline
func (s *Spawner) newScript(path string, argv []string, attr *syscall.ProcAttr, pin *Pin, delay time.Duration) *script {
	c := &script{calls: make([]raw.Call, 0, 16), wait: syscall.NsecToTimespec(int64(delay))}
	c.path, _ = syscall.BytePtrFromString(path)
	c.dir, _ = syscall.BytePtrFromString(attr.Dir)
	c.args, _ = syscall.SlicePtrFromStrings(argv)
	c.env, _ = syscall.SlicePtrFromStrings(attr.Env)
	c.addCall(0, syscall.SYS_SETPGID, 0, 0)
	if attr.Sys.Foreground {
		c.maskTTOU(unix.SIG_BLOCK) // SIGTTOU would stop a process that is not in the foreground yet
		c.addCall(0, syscall.SYS_IOCTL, uintptr(attr.Sys.Ctty), unix.TIOCSPGRP, uintptr(unsafe.Pointer(&c.self)))
		c.maskTTOU(unix.SIG_UNBLOCK)
	}
	if pin != nil {
		c.affinity = pin.all
		c.addCall(0, syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(c.affinity), uintptr(unsafe.Pointer(&c.affinity)))
	}
	if attr.Dir != "" {
		c.addCall(0, syscall.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)))
	}
	if attr.Sys.Pdeathsig != 0 {
		c.addCall(0, syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(attr.Sys.Pdeathsig))
		c.addCall(uintptr(syscall.Getpid()), syscall.SYS_GETPPID) // fails if this process died before the prctl
	}
	for i, fd := range attr.Files {
		switch at := uintptr(i); fd {
		case at:
			c.addCall(0, syscall.SYS_FCNTL, at, syscall.F_SETFD, 0)
		case noFD:
			c.addCall(0, unix.SYS_CLOSE_RANGE, at, at)
		default:
			c.addCall(at, syscall.SYS_DUP3, fd, at, 0)
		}
	}
	if s.noFile != nil {
		c.noFile = *s.noFile
		c.addCall(0, syscall.SYS_PRLIMIT64, 0, syscall.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&c.noFile)), 0)
	}
	if delay > 0 {
		c.addCall(0, unix.SYS_CLOSE_RANGE, uintptr(len(attr.Files)), math.MaxUint32)
		c.addCall(0, syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&c.wait)), 0)
	}
	if fd := s.expiry.Load(); fd > 0 {
		c.expiry = unix.PollFd{Fd: fd, Events: unix.POLLIN}
		c.addCall(0, unix.SYS_PPOLL, uintptr(unsafe.Pointer(&c.expiry)), 1, uintptr(unsafe.Pointer(&c.wait)), 0) // c.wait is 0
	}
	c.addCall(0, syscall.SYS_EXECVE, uintptr(unsafe.Pointer(c.path)), uintptr(unsafe.Pointer(&c.args[0])), uintptr(unsafe.Pointer(&c.env[0])))
	return c
}

// addCall adds a system call that must return want.
func (c *script) addCall(want, number uintptr, args ...uintptr) {
	call := raw.Call{Number: number, Want: want}
	copy(call.Args[:], args)
	c.calls = append(c.calls, call)
}

// maskTTOU adds a call that blocks or unblocks SIGTTOU.
func (c *script) maskTTOU(how uintptr) {
	c.output = 1 << (syscall.SIGTTOU - 1)
	c.addCall(0, syscall.SYS_RT_SIGPROCMASK, how, uintptr(unsafe.Pointer(&c.output)), 0, unsafe.Sizeof(c.output))
}

// err returns the error of the call that failed, or nil.
func (c *script) err() error {
	for i := range c.calls {
		if e := syscall.Errno(c.calls[i].Err()); e != 0 {
			return e
		}
	}
	return nil
}

// StartHelper starts a helper with the given descriptors and word, after a delay, and does not wait for
// it. Until the delay is over, the helper shares the memory of this process. That is cheaper: a run
// that ends before the delay never pays for an exec. The caller must keep the returned value keep
// reachable until then. If the kernel lacks clone3(2) or close_range(2), or a seccomp filter forbids
// them, the helper starts at once.
func StartHelper(name string, null int, fds []int, word string, delay time.Duration) (keep any, pid int, err error) {
	argv, attr := helper(name, null, fds, word)
	if unix.CloseRange(math.MaxUint32, math.MaxUint32, 0) == nil {
		c := new(Spawner).newScript("/proc/self/exe", argv, attr, nil, delay)
		if pid, err = c.spawn(nil, true); err == nil {
			// Move the helper out of this process's group, and continue it in case the group was stopped.
			_ = syscall.Setpgid(pid, pid)
			_ = syscall.Kill(pid, syscall.SIGCONT)
			return c, pid, nil
		}
		if err != syscall.ENOSYS {
			return nil, 0, err
		}
	}
	pid, err = startNow(argv, attr)
	return nil, pid, err
}
