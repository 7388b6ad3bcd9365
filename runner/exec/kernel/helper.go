package kernel

import (
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A helper is a process that runs this same program, does one job for the process that
// started it, and may outlive it. Its argv[0] is not the program's name, so that killing
// every crew by name spares the helpers. The other arguments are the ID of the starting
// process, descriptors, and a word. Arguments are used because anyone can set environment
// variables, and every process inherits them.
//
// A helper runs in its own process group, in the root directory, with null as its three
// standard streams. If the kernel has close_range(2), its only other descriptors are those
// among its arguments; 0 there stands for no descriptor.

// noFD in ProcAttr.Files leaves a descriptor closed.
const noFD = ^uintptr(0)

var helperEnv = []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0"}

// helper returns the command line of a helper and the attributes to start it with.
func helper(name string, null int, fds []int, word string) (argv []string, attr *syscall.ProcAttr) {
	argv = []string{name, strconv.Itoa(os.Getpid())}
	files := slices.Repeat([]uintptr{noFD}, slices.Max(append(fds, 2))+1)
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
	go Unstick(started) // no other process may be left to do it
	return forkExec(path, argv, attr)
}

// AsHelper reports whether this process is a helper that StartHelper started under name with n
// descriptors, and returns the ID of the process that started it, the descriptors and the word. Call it
// in an init function: then no other package has to be initialised first, and any binary that starts
// helpers, such as a test, can run as its own helper.
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

// NewShared creates memory to share with helpers, backed by a file without a name, and returns it with
// the file's descriptor. It uses the first of the sizes that the limit on file sizes allows.
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

// OpenShared maps the memory that NewShared created, given its descriptor.
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

// Close closes *fd and sets it to -1. It does nothing if *fd is negative.
func Close(fd *int) {
	if *fd >= 0 {
		_ = syscall.Close(*fd)
		*fd = -1
	}
}

// Read reads once from *fd. At the end of the stream or after an error it closes *fd; the end of a
// terminal is the error EIO. It returns 0 if there is nothing to read.
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

// Readable reports whether at least one of the descriptors has something to read. Negative descriptors
// are ignored.
func Readable(fds ...int) bool {
	return slices.ContainsFunc(fds, func(fd int) bool {
		set := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		_, _ = unix.Poll(set, 0)
		return set[0].Revents&unix.POLLIN != 0
	})
}

// The states of a child in childInfo.code: CLD_KILLED, CLD_DUMPED and CLD_STOPPED of sigaction(2).
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

// Stopped returns the signal that stopped a child, or 0. It does not wait, and it returns the signal
// only once for each stop.
func Stopped(pid int) syscall.Signal {
	var info childInfo
	if waitChild(pid, unix.WSTOPPED|unix.WNOHANG, &info) != 0 || info.pid == 0 {
		return 0
	}
	return syscall.Signal(info.status)
}

// Exited waits until a child has exited, without reaping it, and reports whether it has. With
// unix.WNOHANG in options it does not wait; with unix.WSTOPPED it also returns if the child has
// stopped.
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

// KilledEarly waits until a child has exited, without reaping it. It reports whether the child was
// killed before it executed its program, by a signal for this process's group, which the child had not
// left yet.
func KilledEarly(pid int) bool {
	info, _ := await(pid, 0)
	if info.code != killedChild && info.code != dumpedChild {
		return false
	}
	p, _ := FindProcess(pid)
	return p.BeforeExec
}

// forkExec is syscall.ForkExec with two differences. It fails with EMFILE if the child found no free
// descriptor: dup2(2) then fails with EBADF, because ForkExec asks for the number after the highest
// one. And it clears Foreground: ForkExec does not block SIGTTOU, so a child in the background would
// stop and ForkExec would wait for ever.
func forkExec(path string, argv []string, attr *syscall.ProcAttr) (pid int, err error) {
	attr.Sys.Foreground = false
	pid, err = syscall.ForkExec(path, argv, attr)
	if err == syscall.EBADF {
		err = syscall.EMFILE
	}
	return pid, err
}

// Process describes a process as the system reports it.
type Process struct {
	PID, Parent, Group, Session int

	Start      int64  // start time in units of the system's choice; with PID it identifies the process
	Name       string // of the program; may be truncated
	Ended      bool   // a zombie without any threads left
	Stopped    bool
	Used       time.Duration // CPU time, including that of reaped children; Linux only
	Memory     int64         // resident bytes; Linux only
	BeforeExec bool          // has not executed a program since it was forked
	exiting    bool          // is exiting or has exited; for Dying
}

// ResumeStuck continues the children of parent that were stopped before they executed their program, by
// a signal for parent's process group.
func ResumeStuck(parent int) {
	for _, p := range Processes() {
		if p.Parent == parent && p.BeforeExec && p.Stopped {
			_ = syscall.Kill(p.PID, syscall.SIGCONT)
		}
	}
}

// Unstick calls ResumeStuck for this process every 10 ms until done is closed. The calls that start
// children would otherwise wait for ever.
func Unstick(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(10 * time.Millisecond):
		}
		ResumeStuck(os.Getpid())
	}
}
