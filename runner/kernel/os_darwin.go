package kernel

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Children that Stopped asks for, as for waitid(2).
const OneChild, AnyChild = 1, 0

// lookAgain is how often waitChild looks whether a child that has stopped exits.
const lookAgain = 20 * time.Millisecond

// waitChild is waitid(2). The kernel tells of a child that has stopped even if it is not asked
// for.
func waitChild(kind, id, options int, info *childInfo) syscall.Errno {
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, uintptr(kind), uintptr(id), uintptr(unsafe.Pointer(info)), uintptr(options), 0, 0)
	if info.code == stoppedChild && options&unix.WSTOPPED == 0 {
		info.pid = 0
		if options&unix.WNOHANG == 0 {
			time.Sleep(lookAgain)
			return syscall.EINTR
		}
	}
	return errno
}

// ErrFormat is an error of execve(2) besides ENOEXEC: the program is for another machine.
const ErrFormat = syscall.EBADARCH

// Environ returns the arguments and the environment with which a process began, each ending in
// NUL, or nil if they are not to be had. The system hides the environment of its own programs.
func Environ(pid int) []byte {
	env, _ := unix.SysctlRaw("kern.procargs2", pid)
	return env
}

// SearchDir are the flags to open a directory in order to open what is in it. O_SEARCH is
// too new to be relied on, but OpenNoLinks spares its callers the walk.
const SearchDir = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

const noLinks = 0x20000000 // O_NOFOLLOW_ANY of sys/fcntl.h

// Exchange exchanges two names. It fails with EINVAL or errors.ErrUnsupported if the
// system or the file system cannot do that.
func Exchange(a, b string) error {
	return Again(func() error { return unix.RenamexNp(a, b, unix.RENAME_SWAP) })
}

// BootID returns what tells this machine, since it was booted, from all others.
func BootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// CommandLine returns the words of a process, with NULs between them, and other text before
// and after them.
func CommandLine(pid int) ([]byte, error) { return unix.SysctlRaw("kern.procargs2", pid) }

// executed reports whether a child, which may be a zombie, has executed a program.
func executed(pid int) bool {
	const exec = 0x4000 // P_EXEC of sys/proc.h
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	return err != nil || info.Proc.P_flag&exec != 0
}
