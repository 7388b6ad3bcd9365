package wiring

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
)

// judgedVariable is the variable that makes the test binary act as a crew whose system calls are judged. See
// startJudged.
const judgedVariable = "CREW_TEST_JUDGED"

// notJudged is the exit status of such a crew if the system does not allow it.
const notJudged = 99

// callNames holds the system calls that create, change and remove files. A kill at any other call has the same
// effect as a kill at the next one of these.
var callNames = map[int32]string{
	unix.SYS_OPENAT: "openat", unix.SYS_OPENAT2: "openat2", unix.SYS_CLOSE: "close", unix.SYS_WRITE: "write", unix.SYS_PWRITE64: "pwrite", unix.SYS_FSYNC: "fsync",
	unix.SYS_FDATASYNC: "fdatasync", unix.SYS_SYNCFS: "syncfs", unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_FCNTL: "fcntl",
	unix.SYS_COPY_FILE_RANGE: "copy_file_range", unix.SYS_SENDFILE: "sendfile", unix.SYS_SPLICE: "splice",
	unix.SYS_MKDIRAT: "mkdirat", unix.SYS_UNLINKAT: "unlinkat", unix.SYS_RENAMEAT2: "renameat2",
}

// byName holds the calls that take a file name as their second argument.
var byName = map[int32]bool{
	unix.SYS_OPENAT: true, unix.SYS_OPENAT2: true, unix.SYS_MKDIRAT: true, unix.SYS_UNLINKAT: true, unix.SYS_RENAMEAT2: true,
}

// notice is a call that waits for its verdict: struct seccomp_notif of linux/seccomp.h.
type notice struct {
	id         uint64
	pid, flags uint32
	call       int32
	arch       uint32
	ip         uint64
	args       [6]uint64
}

// answer carries the verdict: struct seccomp_notif_resp.
type answer struct {
	id    uint64
	val   int64
	err   int32
	flags uint32
}

func init() {
	if os.Getenv(judgedVariable) != "" {
		_ = os.Unsetenv(judgedVariable)
		if err := exposeCalls(); err != nil {
			os.Exit(notJudged)
		}
	}
}

// exposeCalls lets the process at the other end of descriptor 3 judge each call in callNames that this process
// and its children make from now on. See seccomp_unotify(2).
func exposeCalls() error {
	// TSYNC: cover all threads.
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC |
		unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
	program := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the number of the call
	for call := range callNames {
		jump := uint8(len(callNames) + 1 - len(program)) // past the other comparisons and the next return
		program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(call), Jt: jump})
	}
	program = append(program,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF})
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	runtime.LockOSThread() // no_new_privs belongs to a thread
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return errno
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(int(fd)), nil, 0); err != nil {
		return err
	}
	return errors.Join(unix.Close(int(fd)), unix.Close(3))
}

// fileCall is a system call of crew on a file below its working directory.
type fileCall struct {
	name  string
	path  string // relative to the directory, starting with a slash
	to    string // likewise, for a rename
	grows bool   // the call can fail with ENOSPC
}

func (c fileCall) String() string { return c.name + " " + c.path }

// verdict says what happens to a call.
type verdict int

const (
	goesOn      verdict = iota
	dies                // crew is killed before it makes the call
	interrupted         // crew gets SIGINT before the call
	hasNoRoom           // the call fails with ENOSPC
)

// judged is a crew whose file calls are judged one after another.
type judged struct {
	cmd      *exec.Cmd
	judge    func(fileCall) verdict
	calls    []fileCall // in the order in which they were judged
	killed   bool
	listener int
	over     chan error // gets the result of serve
}

// startJudged starts a crew whose file calls are judged. strace(1) can also inject a signal or an error at the nth
// call, but it counts the calls of each thread separately. A Go program makes them on many threads, so most
// calls would never be the nth.
func startJudged(t *testing.T, cmd *exec.Cmd, judge func(fileCall) verdict) *judged {
	t.Helper()
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(ends[0])
	theirs := os.NewFile(uintptr(ends[1]), "theirs")
	cmd.Env = append(cmd.Env, judgedVariable+"=1")
	cmd.ExtraFiles = []*os.File{theirs}
	err = cmd.Start()
	theirs.Close()
	require.NoError(t, err)
	p := &judged{cmd: cmd, judge: judge, over: make(chan error, 1)}
	room := make([]byte, unix.CmsgSpace(4))
	_, got, _, _, err := unix.Recvmsg(ends[0], make([]byte, 1), room, unix.MSG_CMSG_CLOEXEC)
	require.NoError(t, err)
	if got == 0 {
		_ = cmd.Wait()
		require.Equal(t, notJudged, cmd.ProcessState.ExitCode())
		t.Skip("system calls cannot be judged here")
	}
	messages, err := unix.ParseSocketControlMessage(room[:got])
	require.NoError(t, err)
	fds, err := unix.ParseUnixRights(&messages[0])
	require.NoError(t, err)
	p.listener = fds[0]
	go func() { p.over <- p.serve() }()
	return p
}

// wait waits until crew and all processes that it has started have ended.
func (p *judged) wait(t *testing.T) {
	t.Helper()
	_ = p.cmd.Wait()
	require.NoError(t, <-p.over)
}

// serve judges calls until no process is left that can make one.
func (p *judged) serve() error {
	defer unix.Close(p.listener)
	for {
		set := []unix.PollFd{{Fd: int32(p.listener), Events: unix.POLLIN}}
		if _, err := unix.Poll(set, -1); err != nil && err != unix.EINTR {
			return err
		}
		switch {
		case set[0].Revents&unix.POLLIN != 0:
			if err := p.answer(); err != nil {
				return err
			}
		case set[0].Revents != 0:
			return nil
		}
	}
}

// answer judges one call. The process that made it may die at any moment.
func (p *judged) answer() error {
	var n notice
	if err := p.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&n)); err != nil {
		return unless(err, unix.ENOENT, unix.EINTR)
	}
	a := answer{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if call, ok := p.fileCall(&n); ok {
		p.calls = append(p.calls, call)
		switch p.judge(call) {
		case dies:
			p.killed = true
			return p.cmd.Process.Kill()
		case interrupted:
			if err := p.cmd.Process.Signal(unix.SIGINT); err != nil {
				return err
			}
		case hasNoRoom:
			a.flags, a.err = 0, -int32(unix.ENOSPC)
		}
	}
	send := func() error { return p.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)) }
	return unless(kernel.IgnoreEINTR(send), unix.ENOENT)
}

func unless(err error, these ...unix.Errno) error {
	for _, e := range these {
		if err == e {
			return nil
		}
	}
	return err
}

func (p *judged) ioctl(request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(p.listener), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// fileCall returns the call of a notice. It returns false if crew itself did not make the call, or the file is not
// below crew's directory.
func (p *judged) fileCall(n *notice) (fileCall, bool) {
	pid := p.cmd.Process.Pid
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", pid, n.pid)); err != nil || p.killed {
		return fileCall{}, false
	}
	path := ""
	switch {
	case byName[n.call]:
		path = p.name(n.args[0], n.args[1])
	case n.call == unix.SYS_FCNTL && n.args[1] != unix.F_SETLK && n.args[1] != unix.F_OFD_SETLK:
		return fileCall{}, false // it changes nothing
	default:
		path = p.opened(n.args[0])
	}
	c := fileCall{name: callNames[n.call]}
	if strings.HasPrefix(c.name, "rename") {
		c.to = strings.TrimPrefix(p.name(n.args[2], n.args[3]), p.cmd.Dir)
	}
	switch n.call {
	case unix.SYS_OPENAT, unix.SYS_OPENAT2:
		flags := n.args[2]
		if n.call == unix.SYS_OPENAT2 { // a pointer to struct open_how of linux/openat2.h
			flags = binary.NativeEndian.Uint64(p.memory(flags, 8))
		}
		_, err := os.Lstat(path)
		c.grows = flags&unix.O_CREAT != 0 && err != nil || flags&unix.O_TMPFILE == unix.O_TMPFILE
	case unix.SYS_CLOSE, unix.SYS_FTRUNCATE, unix.SYS_FCNTL, unix.SYS_UNLINKAT:
	default:
		c.grows = true
	}
	var below bool
	c.path, below = strings.CutPrefix(path, p.cmd.Dir)
	return c, below
}

// name returns the path for the file name at an address in crew's memory, relative to the directory of a
// descriptor.
func (p *judged) name(fd, at uint64) string {
	path, _, _ := strings.Cut(string(p.memory(at, unix.PathMax)), "\x00")
	switch {
	case filepath.IsAbs(path):
	case int32(fd) == unix.AT_FDCWD:
		path = filepath.Join(p.cmd.Dir, path)
	default:
		path = filepath.Join(p.opened(fd), path)
	}
	return path
}

// opened returns the path that one of crew's descriptors is open on.
func (p *judged) opened(fd uint64) string {
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", p.cmd.Process.Pid, int32(fd)))
	return path
}

// memory returns n bytes of crew's memory. Bytes that cannot be read are zero.
func (p *judged) memory(at uint64, n int) []byte {
	b := make([]byte, n)
	if mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", p.cmd.Process.Pid)); err == nil {
		_, _ = mem.ReadAt(b, int64(at))
		mem.Close()
	}
	return b
}
