package kernel

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lookAgain is how often waitChild checks whether a stopped child has exited.
const lookAgain = 20 * time.Millisecond

// waitChild is waitid(2). The kernel also reports a child that has stopped, even without WSTOPPED.
func waitChild(pid, options int, info *childInfo) syscall.Errno {
	const one = 1 // P_PID
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, one, uintptr(pid), uintptr(unsafe.Pointer(info)), uintptr(options), 0, 0)
	if info.code == stoppedChild && options&unix.WSTOPPED == 0 {
		info.pid = 0
		if options&unix.WNOHANG == 0 {
			time.Sleep(lookAgain)
			return syscall.EINTR
		}
	}
	return errno
}

// ErrFormat is the error of execve(2), besides ENOEXEC, for a program built for another machine.
const ErrFormat = syscall.EBADARCH

// Environ returns the arguments and the environment that a process started with, each ending in NUL. It
// returns nil if they are not available. The system hides the environment of its own programs.
func Environ(pid int) []byte {
	env, _ := unix.SysctlRaw("kern.procargs2", pid)
	return env
}

// SearchDir holds the flags for opening a directory only to open files in it. That needs no permission
// to read the directory, except on old systems, which do not know the first flag, O_EXEC of
// sys/fcntl.h.
const SearchDir = 0x40000000 | unix.O_DIRECTORY | unix.O_CLOEXEC

// Exchange exchanges two names. It fails with EINVAL or errors.ErrUnsupported if the system or the file
// system does not support that.
func Exchange(a, b string) error {
	return IgnoreEINTR(func() error { return unix.RenamexNp(a, b, unix.RENAME_SWAP) })
}

// FindProcess describes a process. ok is false if there is no such process.
func FindProcess(pid int) (p Process, ok bool) {
	info, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return p, false
	}
	return process(info), true
}

// Processes returns all processes that the system shows.
func Processes() (all []Process) {
	list, _ := unix.SysctlKinfoProcSlice("kern.proc.all")
	for i := range list {
		all = append(all, process(&list[i]))
	}
	return all
}

func process(info *unix.KinfoProc) Process {
	const exec, stopped, zombie = 0x4000, 4, 5 // P_EXEC, SSTOP and SZOMB of sys/proc.h
	pid := int(info.Proc.P_pid)
	session, _ := unix.Getsid(pid)
	return Process{
		PID: pid, Parent: int(info.Eproc.Ppid), Group: int(info.Eproc.Pgid), Session: session,
		Start: info.Proc.P_starttime.Nano(), Name: unix.ByteSliceToString(info.Proc.P_comm[:]),
		Ended:      info.Proc.P_stat == zombie,
		Stopped:    info.Proc.P_stat == stopped,
		BeforeExec: info.Proc.P_flag&exec == 0,
	}
}
