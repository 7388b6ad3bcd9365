//go:build amd64 || arm64

package proc

import (
	"bytes"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"crew/runner/vfork"
)

// spawner starts processes as syscall.ForkExec does, with less to do: see
// package vfork. Where the kernel has not what that takes, or a seccomp filter
// forbids it, ForkExec takes over. It is safe for concurrent use.
type spawner struct {
	pid    uintptr
	noFile *[2]uint64  // the limit that a child gets back; nil where it has it
	off    atomic.Bool // there is no clone3(2), or not for us
	rooms  sync.Pool   // of *room
}

func newSpawner() *spawner {
	s := &spawner{pid: uintptr(os.Getpid())}
	if first := vfork.NoFile; first[0]+1 < first[1] {
		// Package syscall raises the soft limit to one less than the hard one,
		// and ForkExec gives a child the old one unless it has been set since.
		var now syscall.Rlimit
		if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &now); err == nil && now.Cur == first[1]-1 && now.Max == first[1] {
			s.noFile = &first
		}
	}
	ignoreChildren()
	return s
}

// ignoreChildren sets SIGCHLD to its default, which is to be ignored: nobody
// here wants to be told, and the runtime's handler costs a thread's sleep for
// each child.
func ignoreChildren() {
	var action [4]uint64 // struct kernel_sigaction: SIG_DFL, no flags, no mask
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(syscall.SIGCHLD), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
}

// room is what a child needs from before it exists until it has its program:
// the calls that it makes and what these point to.
type room struct {
	calls []vfork.Call
	words []*byte // argv and the environment, each with a nil behind it
	text  []byte  // the words, each with a NUL behind it
}

// mostRoom is how much text is kept for the next child.
const mostRoom = 64 << 10

// start starts full with argv in a process group of its own, which is killed
// when this thread ends. Of attr, Dir, Env and Files count, and in Sys what
// says that for ForkExec. Files must be three. Where it can, it stores the id in
// born, if that is not nil, before the process exists. From a seat, which is nil
// for none, the process may use all processors nevertheless; where that cannot
// be had, start fails with EINVAL; where the directory cannot be entered, with a
// dirError.
func (s *spawner) start(full string, argv []string, attr *syscall.ProcAttr, born *int32, at *seat) (pid int, err error) {
	if s.off.Load() || !plainFiles(attr.Files) {
		if at != nil {
			return 0, syscall.EINVAL
		}
		return forkExec(full, argv, attr)
	}
	r, _ := s.rooms.Get().(*room)
	if r == nil {
		r = new(room)
	}
	if !r.fill(s, full, argv, attr, at) {
		return 0, syscall.EINVAL
	}
	pid, errno := vfork.Run(r.calls, born)
	runtime.KeepAlive(r)
	runtime.KeepAlive(at)
	failed := r.failed()
	if cap(r.text) <= mostRoom {
		s.rooms.Put(r)
	}
	switch {
	case errno == uintptr(syscall.ENOSYS), errno == uintptr(syscall.EPERM), errno == uintptr(syscall.EINVAL):
		s.off.Store(true)
		return s.start(full, argv, attr, born, at)
	case errno != 0:
		return 0, syscall.Errno(errno)
	case failed != nil:
		for {
			if _, err := syscall.Wait4(pid, nil, 0, nil); err != syscall.EINTR {
				break
			}
		}
		return 0, failed
	}
	return pid, nil
}

// plainFiles says whether each file can become a standard stream without being
// in the way of another, as it is unless this process began without its own.
func plainFiles(files []uintptr) bool {
	for i, fd := range files {
		if fd < uintptr(len(files)) && fd != uintptr(i) {
			return false
		}
	}
	return true
}

// fill writes down what the child is to do. It fails where a word holds a NUL.
func (r *room) fill(s *spawner, full string, argv []string, attr *syscall.ProcAttr, at *seat) bool {
	size := len(full) + len(attr.Dir) + 2
	for _, words := range [][]string{argv, attr.Env} {
		for _, w := range words {
			size += len(w) + 1
		}
	}
	if cap(r.text) < size {
		r.text = make([]byte, 0, size+size/4) // it must not move any more
	}
	r.calls, r.words, r.text = r.calls[:0], r.words[:0], r.text[:0]
	path, dir := r.word(full), r.word(attr.Dir)
	for _, w := range argv {
		r.words = append(r.words, r.word(w))
	}
	r.words = append(r.words, nil)
	for _, w := range attr.Env {
		r.words = append(r.words, r.word(w))
	}
	r.words = append(r.words, nil)
	if bytes.Count(r.text, []byte{0}) != 2+len(argv)+len(attr.Env) {
		return false
	}

	r.call(0, syscall.SYS_SETPGID, 0, 0)
	if at != nil {
		r.call(0, syscall.SYS_SCHED_SETAFFINITY, 0, unsafe.Sizeof(at.all), uintptr(unsafe.Pointer(&at.all)))
	}
	if attr.Dir != "" {
		r.call(0, syscall.SYS_CHDIR, pointer(dir))
	}
	r.call(0, syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(attr.Sys.Pdeathsig))
	r.call(s.pid, syscall.SYS_GETPPID) // else this process has died before
	for i, fd := range attr.Files {
		if fd == uintptr(i) {
			r.call(0, syscall.SYS_FCNTL, fd, syscall.F_SETFD, 0)
		} else {
			r.call(uintptr(i), syscall.SYS_DUP3, fd, uintptr(i), 0)
		}
	}
	if s.noFile != nil {
		r.call(0, syscall.SYS_PRLIMIT64, 0, syscall.RLIMIT_NOFILE, uintptr(unsafe.Pointer(s.noFile)), 0)
	}
	r.call(0, syscall.SYS_EXECVE, pointer(path), uintptr(unsafe.Pointer(&r.words[0])), uintptr(unsafe.Pointer(&r.words[len(argv)+1])))
	return true
}

func pointer(p *byte) uintptr { return uintptr(unsafe.Pointer(p)) }

// word adds to the text, where there is room.
func (r *room) word(w string) *byte {
	at := len(r.text)
	r.text = append(append(r.text, w...), 0)
	return &r.text[at]
}

// call adds a call that returns want.
func (r *room) call(want, number uintptr, args ...uintptr) {
	c := vfork.Call{Number: number, Want: want}
	copy(c.Args[:], args)
	r.calls = append(r.calls, c)
}

// failed is what the calls have failed with, or nil.
func (r *room) failed() error {
	for i := range r.calls {
		switch e := syscall.Errno(r.calls[i].Err()); {
		case e == 0:
		case r.calls[i].Number == syscall.SYS_CHDIR:
			return dirError{e}
		default:
			return e
		}
	}
	return nil
}
