package kernel

import (
	"encoding/binary"
	"encoding/hex"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Children that Stopped asks for, as for wait6(2).
const OneChild, AnyChild = 0, 7

// waitChild is wait6(2). The kernel fills in info even if there is no such child.
func waitChild(kind, id, options int, info *childInfo) syscall.Errno {
	got, _, errno := syscall.Syscall6(syscall.SYS_WAIT6, uintptr(kind), uintptr(id), 0, uintptr(options), 0, uintptr(unsafe.Pointer(info)))
	info.pid = int32(got)
	return errno
}

// ErrFormat is an error of execve(2) besides ENOEXEC: the program is for another machine.
const ErrFormat = syscall.EFTYPE

// Environ returns the environment with which a process began, each variable ending in NUL,
// or nil if that is not to be had.
func Environ(pid int) []byte {
	env, _ := unix.SysctlRaw("kern.proc.env", pid)
	return env
}

// SearchDir are the flags to open a directory in order to open what is in it: that takes no
// right to read it. The first is O_EXEC of sys/fcntl.h.
const SearchDir = 0x00040000 | unix.O_DIRECTORY | unix.O_CLOEXEC

const noLinks = 0 // there is no such flag

// Exchange fails with errors.ErrUnsupported.
func Exchange(string, string) error { return unix.ENOSYS }

// BootID returns what tells this machine, since it was booted, from all others.
func BootID() (string, error) {
	id, err := unix.SysctlRaw("kern.boot_id")
	return hex.EncodeToString(id), err
}

// CommandLine returns the words of a process, with NULs between them.
func CommandLine(pid int) ([]byte, error) { return unix.SysctlRaw("kern.proc.args", pid) }

// executed reports whether a child, which may be a zombie, has executed a program.
func executed(pid int) bool {
	const exec, flags = 0x4000, 368 // P_EXEC of sys/proc.h; offset of ki_flag in sys/user.h, with pointers of 64 bits
	info, err := unix.SysctlRaw("kern.proc.pid", pid)
	return err != nil || len(info) < flags+8 || binary.NativeEndian.Uint64(info[flags:])&exec != 0
}
