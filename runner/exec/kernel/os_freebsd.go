package kernel

import (
	"encoding/binary"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waitChild is wait6(2). The kernel fills in info even if there is no such child.
func waitChild(pid, options int, info *childInfo) syscall.Errno {
	const one = 0 // P_PID
	got, _, errno := syscall.Syscall6(syscall.SYS_WAIT6, one, uintptr(pid), 0, uintptr(options), 0, uintptr(unsafe.Pointer(info)))
	info.pid = int32(got)
	return errno
}

// ErrFormat is the error of execve(2), besides ENOEXEC, for a program built for another machine.
const ErrFormat = syscall.EFTYPE

// Environ returns the environment that a process started with, each variable ending in NUL. It returns
// nil if the environment is not available.
func Environ(pid int) []byte {
	env, _ := unix.SysctlRaw("kern.proc.env", pid)
	return env
}

// SearchDir holds the flags for opening a directory only to open files in it. That needs no permission
// to read the directory. The first flag is O_EXEC of sys/fcntl.h.
const SearchDir = 0x00040000 | unix.O_DIRECTORY | unix.O_CLOEXEC

// Exchange fails with errors.ErrUnsupported.
func Exchange(string, string) error { return unix.ENOSYS }

// FindProcess describes a process. ok is false if there is no such process or the system hides it.
func FindProcess(pid int) (p Process, ok bool) {
	info, _ := unix.SysctlRaw("kern.proc.pid", pid)
	if len(info) < minInfoSize {
		return p, false
	}
	return process(info), true
}

// Processes returns all processes that the system shows.
func Processes() (all []Process) {
	list, _ := unix.SysctlRaw("kern.proc.proc")
	for len(list) >= minInfoSize {
		size := int(binary.NativeEndian.Uint32(list)) // ki_structsize
		if size < minInfoSize || size > len(list) {
			break
		}
		all, list = append(all, process(list[:size])), list[size:]
	}
	return all
}

// minInfoSize is how much of struct kinfo_proc process reads.
const minInfoSize = 447 + 20

// process reads struct kinfo_proc of sys/user.h, with pointers of 64 bits.
func process(info []byte) Process {
	const exec, stopped, zombie = 0x4000, 4, 5 // P_EXEC, SSTOP and SZOMB of sys/proc.h
	number := func(at int) int { return int(int32(binary.NativeEndian.Uint32(info[at:]))) }
	seconds, micros := binary.NativeEndian.Uint64(info[336:]), binary.NativeEndian.Uint64(info[344:]) // ki_start
	return Process{
		PID: number(72), Parent: number(76), Group: number(80), Session: number(88),
		Start: int64(seconds)*1e6 + int64(micros), Name: unix.ByteSliceToString(info[447:minInfoSize]), // ki_comm
		Ended:      info[388] == zombie, // ki_stat
		Stopped:    info[388] == stopped,
		BeforeExec: binary.NativeEndian.Uint64(info[368:])&exec == 0, // ki_flag
	}
}
