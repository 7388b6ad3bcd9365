package kernel

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Children that Stopped asks for, as for waitid(2).
const (
	OneChild = 1
	AnyChild = 0
)

// lookAgain is how often waitID looks whether a child that has stopped exits.
const lookAgain = 20 * time.Millisecond

// waitID is waitid(2). It returns 0 for pid if there is no such child. The kernel tells of one
// that has stopped even if it is not asked for.
func waitID(idType, id, options int) (pid, code, status int, err error) {
	var info struct {
		signo, _, code, pid, _, status int32
		_                              [80]byte
	}
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, uintptr(idType), uintptr(id), uintptr(unsafe.Pointer(&info)), uintptr(options), 0, 0)
	if errno != 0 {
		return 0, 0, 0, errno
	}
	stopped := info.code == stoppedChild
	if stopped && options&(unix.WSTOPPED|unix.WNOHANG) == 0 {
		time.Sleep(lookAgain)
		return 0, 0, 0, unix.EINTR
	}
	if info.signo == 0 || stopped && options&unix.WSTOPPED == 0 {
		return 0, 0, 0, nil
	}
	return int(info.pid), int(info.code), int(info.status), nil
}

// ErrFormat is an error of execve(2) besides ENOEXEC: the program is for another machine.
const ErrFormat = syscall.EBADARCH

// Environ returns the arguments and the environment with which a process began, each ending in
// NUL, or nil if they are not to be had. The system hides the environment of its own programs.
func Environ(pid int) []byte {
	env, _ := unix.SysctlRaw("kern.procargs2", pid)
	return env
}

// executed reports whether a child, which may be a zombie, has executed a program.
func executed(pid int) bool {
	const exec = 0x4000 // P_EXEC of sys/proc.h
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err != nil || info.Proc.P_flag&exec != 0
}
