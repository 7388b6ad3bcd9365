package kernel

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Children that Stopped asks for, as for wait6(2).
const (
	OneChild = 0
	AnyChild = 7
)

// waitID is wait6(2). It returns 0 for pid if there is no such child. The kernel fills in info
// even then.
func waitID(idType, id, options int) (pid, code, status int, err error) {
	var info struct {
		signo, _, code, pid, _, status int32
		_                              [80]byte
	}
	got, _, errno := syscall.Syscall6(syscall.SYS_WAIT6, uintptr(idType), uintptr(id), 0, uintptr(options), 0, uintptr(unsafe.Pointer(&info)))
	if errno != 0 {
		return 0, 0, 0, errno
	}
	if got == 0 {
		return 0, 0, 0, nil
	}
	return int(got), int(info.code), int(info.status), nil
}

// ErrFormat is an error of execve(2) besides ENOEXEC: the program is for another machine.
const ErrFormat = syscall.EFTYPE

// Environ returns the environment with which a process began, each variable ending in NUL,
// or nil if that is not to be had.
func Environ(pid int) []byte {
	env, _ := unix.SysctlRaw("kern.proc.env", pid)
	return env
}

// executed reports whether a child, which may be a zombie, has executed a program.
func executed(pid int) bool {
	const exec, flags = 0x4000, 368 // P_EXEC of sys/proc.h; offset of ki_flag in sys/user.h, with pointers of 64 bits
	info, err := unix.SysctlRaw("kern.proc.pid", pid)
	return err != nil || len(info) < flags+8 || binary.NativeEndian.Uint64(info[flags:])&exec != 0
}
