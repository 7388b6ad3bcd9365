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

// Spawner starts processes as syscall.ForkExec does, but with fewer system calls.
// It does not reset signal handlers one by one (60 calls of rt_sigaction(2)), and
// needs no pipe to learn of a failure, since the child shares this process's
// memory until it execs. If the kernel lacks clone3(2), or a seccomp filter
// forbids it, Spawner uses ForkExec. It is safe for concurrent use.
type Spawner struct {
	noFile *[2]uint64  // the limit on open files to restore in children; nil if it is unchanged
	off    atomic.Bool // clone3(2) does not work here
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
	// By default SIGCHLD is ignored. With the runtime's handler, each child that
	// ends would wake a thread.
	Reset(syscall.SIGCHLD)
	return s
}

// script is the list of system calls that a child makes until it execs, with all the
// data they point to. The calls hold addresses as plain numbers, which neither keep
// anything alive nor change when a stack moves. So a script must be on the heap, and
// be kept alive as one object.
type script struct {
	calls     []raw.Call
	path, dir *byte
	args, env []*byte

	self     int32  // the child's ID
	output   uint64 // SIGTTOU as a set
	affinity unix.CPUSet
	noFile   [2]uint64
	wait     syscall.Timespec
}

// Start starts a program in a process group of its own. No word may hold a NUL. It uses Dir, Env and Files of attr,
// which must have three elements; Sys must ask ForkExec for the same. If born is not nil, and
// clone3(2) works, the kernel stores the process ID there before the process runs; after a
// failure born is 0. A Pdeathsig of attr.Sys comes when the calling thread ends, which
// threads of crew do with the process alone.
//
// If attr.Sys.Foreground, the child puts itself into the foreground of the terminal
// attr.Sys.Ctty. Without clone3(2) the caller has to do that.
//
// If pin is not nil, the child's affinity is reset to all processors that the
// thread may use without the pin; Start fails with EINVAL if it cannot do that.
func (s *Spawner) Start(path string, argv []string, attr *syscall.ProcAttr, born *int32, pin *Pin) (pid int, err error) {
	if s.off.Load() {
		if pin != nil {
			return 0, syscall.EINVAL
		}
		return forkExec(path, argv, attr)
	}
	c := s.write(path, argv, attr, pin, 0)
	pid, err = c.spawn(born, false)
	if err == syscall.ENOSYS {
		s.off.Store(true)
		return s.Start(path, argv, attr, born, pin)
	}
	if err != nil {
		return 0, err
	}
	if err = c.failed(); err != nil {
		if born != nil {
			atomic.StoreInt32(born, 0) // the ID is free once the child is reaped
		}
		Wait(pid, nil, nil)
		return 0, err
	}
	return pid, nil
}

// spawn starts the child as raw.Spawn does. It fails with ENOSYS if clone3(2) does not work here.
func (c *script) spawn(born *int32, beside bool) (pid int, err error) {
	pid, errno := raw.Spawn(c.calls, born, &c.self, beside)
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

// write returns the script of a child, which is on the heap as long as write is not inlined. With a
// delay, the child closes all other descriptors and waits before it execs.
//
//go:noinline
func (s *Spawner) write(path string, argv []string, attr *syscall.ProcAttr, pin *Pin, delay time.Duration) *script {
	c := &script{calls: make([]raw.Call, 0, 16), wait: syscall.NsecToTimespec(int64(delay))}
	c.path, _ = syscall.BytePtrFromString(path)
	c.dir, _ = syscall.BytePtrFromString(attr.Dir)
	c.args, _ = syscall.SlicePtrFromStrings(argv)
	c.env, _ = syscall.SlicePtrFromStrings(attr.Env)
	c.call(0, syscall.SYS_SETPGID, 0, 0)
	if attr.Sys.Foreground {
		c.mask(unix.SIG_BLOCK) // would stop a process that is not in the foreground yet
		c.call(0, syscall.SYS_IOCTL, uintptr(attr.Sys.Ctty), unix.TIOCSPGRP, uintptr(unsafe.Pointer(&c.self)))
		c.mask(unix.SIG_UNBLOCK)
	}
	if pin != nil {
		c.affinity = pin.all
		c.call(0, syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(c.affinity), uintptr(unsafe.Pointer(&c.affinity)))
	}
	if attr.Dir != "" {
		c.call(0, syscall.SYS_CHDIR, uintptr(unsafe.Pointer(c.dir)))
	}
	if attr.Sys.Pdeathsig != 0 {
		c.call(0, syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(attr.Sys.Pdeathsig))
		c.call(uintptr(syscall.Getpid()), syscall.SYS_GETPPID) // fails if this process died before the prctl
	}
	for i, fd := range attr.Files {
		switch at := uintptr(i); fd {
		case at:
			c.call(0, syscall.SYS_FCNTL, at, syscall.F_SETFD, 0)
		case closed:
			c.call(0, unix.SYS_CLOSE_RANGE, at, at)
		default:
			c.call(at, syscall.SYS_DUP3, fd, at, 0)
		}
	}
	if s.noFile != nil {
		c.noFile = *s.noFile
		c.call(0, syscall.SYS_PRLIMIT64, 0, syscall.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&c.noFile)), 0)
	}
	if delay > 0 {
		c.call(0, unix.SYS_CLOSE_RANGE, uintptr(len(attr.Files)), math.MaxUint32)
		c.call(0, syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&c.wait)), 0)
	}
	c.call(0, syscall.SYS_EXECVE, uintptr(unsafe.Pointer(c.path)), uintptr(unsafe.Pointer(&c.args[0])), uintptr(unsafe.Pointer(&c.env[0])))
	return c
}

// call adds a system call that has to return want.
func (c *script) call(want, number uintptr, args ...uintptr) {
	call := raw.Call{Number: number, Want: want}
	copy(call.Args[:], args)
	c.calls = append(c.calls, call)
}

// mask adds a call that blocks or unblocks SIGTTOU.
func (c *script) mask(how uintptr) {
	c.output = 1 << (syscall.SIGTTOU - 1)
	c.call(0, syscall.SYS_RT_SIGPROCMASK, how, uintptr(unsafe.Pointer(&c.output)), 0, unsafe.Sizeof(c.output))
}

// failed returns the error of the call that failed, or nil.
func (c *script) failed() error {
	for i := range c.calls {
		if e := syscall.Errno(c.calls[i].Err()); e != 0 {
			return e
		}
	}
	return nil
}

// StartHelper starts a helper that gets the descriptors and the word, after a delay. Until then
// that shares the memory of this process, which is cheaper: a run that ends before the delay never
// pays for an exec. Keep what StartHelper returns reachable until the delay is over. The
// helper starts at once if the kernel lacks clone3(2) or close_range(2), or a seccomp filter
// forbids it. StartHelper does not wait.
func StartHelper(name string, null int, fds []int, word string, delay time.Duration) (keep any, pid int, err error) {
	argv, attr := helper(name, null, fds, word)
	if unix.CloseRange(math.MaxUint32, math.MaxUint32, 0) == nil {
		c := new(Spawner).write("/proc/self/exe", argv, attr, nil, delay)
		if pid, err = c.spawn(nil, true); err == nil {
			// From here on it has left this process's group, and goes on if that was stopped before.
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
