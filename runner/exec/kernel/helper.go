package kernel

import (
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A helper is a process of this very program that does one job for it and may outlive
// it. Its argv[0] is not the program's name, so that killing every crew by name spares
// the helpers. The other arguments are the ID of this process, descriptors, and a word;
// they are no environment variables, which anybody may set and every process inherits.
//
// A helper runs in a process group of its own, in the root directory, with null as its
// three standard streams; its only other descriptors are its arguments, of which 0 is
// none, if the kernel has close_range(2).

// closed is no descriptor.
const closed = ^uintptr(0)

var helperEnv = []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0"}

// helper returns the command line of a helper, and how it starts.
func helper(name string, null int, fds []int, word string) (argv []string, attr *syscall.ProcAttr) {
	argv = []string{name, strconv.Itoa(os.Getpid())}
	files := slices.Repeat([]uintptr{closed}, slices.Max(append(fds, 2))+1)
	for _, fd := range fds {
		argv = append(argv, strconv.Itoa(fd))
		files[fd] = uintptr(fd)
	}
	files[0], files[1], files[2] = uintptr(null), uintptr(null), uintptr(null)
	return append(argv, word), &syscall.ProcAttr{Dir: "/", Env: helperEnv, Files: files, Sys: &syscall.SysProcAttr{Setpgid: true}}
}

// startNow starts a helper without a delay.
func startNow(argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	path, err := OwnPath()
	if err != nil {
		return 0, err
	}
	started := make(chan struct{})
	defer close(started)
	go Unstick(started) // there may be no other process that does
	return forkExec(path, argv, attr)
}

// AsHelper returns what StartHelper was called with, with n descriptors, if this process is
// such a helper. Call it in an init function: then no other package has to be initialised
// first, and every binary that starts helpers, such as a test, is its own.
func AsHelper(name string, n int) (parent int, fds []int, word string, ok bool) {
	if len(os.Args) != n+3 || os.Args[0] != name {
		return 0, nil, "", false
	}
	var numbers []int
	for _, arg := range os.Args[1 : n+2] {
		number, _ := strconv.Atoi(arg)
		numbers = append(numbers, number)
	}
	return numbers[0], numbers[1:], os.Args[n+2], true
}

// NewShared makes memory that helpers can share, and its descriptor: a file without a name. It
// has the first of the sizes that the limit on the size of files allows.
func NewShared(name string, sizes ...int64) (memory []byte, fd int, err error) {
	for _, size := range sizes {
		if fd, err = newShared(name, size); err == nil {
			break
		}
	}
	if err == nil {
		memory, err = OpenShared(fd)
	}
	if err != nil {
		Close(&fd)
	}
	return memory, fd, err
}

// OpenShared returns the memory of a descriptor.
func OpenShared(fd int) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	return unix.Mmap(fd, 0, int(st.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

// Wait waits until a child has ended and reaps it. ws and ru may be nil.
func Wait(pid int, ws *syscall.WaitStatus, ru *syscall.Rusage) {
	for {
		if _, err := syscall.Wait4(pid, ws, 0, ru); err != syscall.EINTR {
			return
		}
	}
}

// Close closes a descriptor unless that is -1, which it is then.
func Close(fd *int) {
	if *fd >= 0 {
		_ = syscall.Close(*fd)
		*fd = -1
	}
}

// Read reads once from a descriptor, and closes it at the end of the stream or after an
// error, also of a terminal, which ends with EIO. It returns 0 if nothing is there.
func Read(fd *int, p []byte) int {
	n, err := syscall.Read(*fd, p)
	if err == syscall.EINTR || err == syscall.EAGAIN {
		return 0
	}
	if err != nil || n == 0 {
		Close(fd)
		return 0
	}
	return n
}

// Readable reports whether one of the descriptors has something to read. Those that are negative
// have not.
func Readable(fds ...int) bool {
	return slices.ContainsFunc(fds, func(fd int) bool {
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, _ = unix.Poll(set, 0)
		return set[0].Revents&unix.POLLIN != 0
	})
}

// What has become of a child: CLD_KILLED, CLD_DUMPED and CLD_STOPPED of sigaction(2).
const (
	killedChild  = 2
	dumpedChild  = 3
	stoppedChild = 5
)

// childInfo is the part of siginfo_t that waitid(2) fills in.
type childInfo struct {
	_, _, code     int32
	_              union
	pid, _, status int32 // pid stays 0 if there is no such child
	_              [104]byte
}

// Stopped returns the signal that has stopped a child, or 0, without waiting. It returns that
// once for each stop.
func Stopped(pid int) syscall.Signal {
	var info childInfo
	if waitChild(pid, unix.WSTOPPED|unix.WNOHANG, &info) != 0 || info.pid == 0 {
		return 0
	}
	return syscall.Signal(info.status)
}

// Exited waits until a child has exited, and leaves it to be reaped. It reports
// whether the child has exited: with unix.WNOHANG it does not wait, and with
// unix.WSTOPPED it also returns if the child has stopped.
func Exited(pid, options int) bool {
	info, errno := await(pid, options)
	return errno != 0 || info.pid != 0 && info.code != stoppedChild
}

func await(pid, options int) (info childInfo, errno syscall.Errno) {
	for {
		if errno = waitChild(pid, unix.WEXITED|unix.WNOWAIT|options, &info); errno != syscall.EINTR {
			return info, errno
		}
		info = childInfo{}
	}
}

// KilledEarly waits until a child has exited, and leaves it to be reaped. It reports whether it
// was killed before it executed its program: by a signal for this process's group, which it had
// not left yet.
func KilledEarly(pid int) bool {
	info, _ := await(pid, 0)
	if info.code != killedChild && info.code != dumpedChild {
		return false
	}
	p, _ := Look(pid)
	return p.Unbegun
}

// forkExec is syscall.ForkExec, but fails with EMFILE if the child found no descriptor: there
// dup2(2) fails with EBADF, since ForkExec asks for the number after the highest one. It resets
// Foreground: ForkExec does not block SIGTTOU, so a child in the background would
// stop, and ForkExec wait for ever.
func forkExec(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	attr.Sys.Foreground = false
	pid, err = syscall.ForkExec(path, argv, attr)
	if err == syscall.EBADF {
		err = syscall.EMFILE
	}
	return pid, err
}

// Process is what the system tells of a process.
type Process struct {
	PID, Parent, Group, Session int

	Start   int64  // when it began, in a unit of the system's; with PID it identifies the process
	Name    string // of the program, perhaps cut
	Ended   bool   // it is a zombie of which no thread is left
	Stopped bool
	Used    time.Duration // CPU time, with that of children that have ended; Linux alone tells it
	Memory  int64         // resident bytes; the same
	Unbegun bool          // it has not executed a program since it was forked
	exiting bool          // it is about to end, or has; for Dying
}

// Free continues the children of parent that have stopped before they executed their program, as a
// signal for its process group makes them.
func Free(parent int) {
	for _, p := range Processes() {
		if p.Parent == parent && p.Unbegun && p.Stopped {
			_ = syscall.Kill(p.PID, syscall.SIGCONT)
		}
	}
}

// Unstick frees children of this process until done is closed. The calls that start them would
// wait for ever.
func Unstick(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(10 * time.Millisecond):
		}
		Free(os.Getpid())
	}
}
