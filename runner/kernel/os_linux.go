package kernel

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Children that Stopped asks for.
const (
	OneChild = unix.P_PID
	AnyChild = unix.P_ALL
)

// childInfo is the part of siginfo_t that waitid(2) fills in.
type childInfo struct {
	signo, _, code int32
	fields         struct {
		_           [0]uintptr // a union with pointers
		pid, _, sig int32
	}
}

// waitID is waitid(2). It returns 0 for pid if there is no such child.
func waitID(idType, id, options int) (pid, code, status int, err error) {
	var info unix.Siginfo
	c := (*childInfo)(unsafe.Pointer(&info))
	if err = unix.Waitid(idType, id, &info, options, nil); err != nil || c.signo == 0 {
		return 0, 0, 0, err
	}
	return int(c.fields.pid), int(c.code), int(c.fields.sig), nil
}

// OpenExit returns a descriptor that poll(2) finds readable once a child has exited.
func OpenExit(pid int) (fd int, err error) { return unix.PidfdOpen(pid, 0) }

// Niceness returns that of this process. As a system call, getpriority(2) returns 20
// minus the niceness.
func Niceness() (int, error) {
	n, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	return 20 - n, err
}

const getModes, setModes, unread = unix.TCGETS, unix.TCSETS, unix.TIOCINQ

// ErrFormat is an error of execve(2) besides ENOEXEC: the program is for another machine.
const ErrFormat = syscall.ELIBBAD

// action fills in the start of struct sigaction, the handler, and more that is not needed.
func action(sig syscall.Signal, to *[16]uintptr) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(to)), 8, 0, 0)
	return errno
}

// Environ returns the environment with which a process began, each variable ending in NUL,
// or nil if that is not to be had.
func Environ(pid int) []byte {
	env, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return env
}

// executed reports whether a child, which may be a zombie, has executed a program.
func executed(pid int) bool {
	const fork = 0x40 // PF_FORKNOEXEC of linux/sched.h
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	// PID (NAME) STATE PARENT GROUP SESSION TTY FOREGROUND FLAGS: the name can hold anything
	f := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(f) < 7 {
		return true
	}
	flags, err := strconv.Atoi(f[6])
	return err != nil || flags&fork == 0
}
