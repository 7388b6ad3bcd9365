package kernel

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

type union [0]uintptr // aligns the following union, which has members with pointers

func waitChild(pid, options int, info *childInfo) syscall.Errno {
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, unix.P_PID, uintptr(pid), uintptr(unsafe.Pointer(info)), uintptr(options), 0, 0)
	return errno
}

// OpenExit returns a descriptor that becomes readable for poll(2) once a child has exited.
func OpenExit(pid int) (fd int, err error) { return unix.PidfdOpen(pid, 0) }

const getModes, setModes, unread = unix.TCGETS, unix.TCSETS, unix.TIOCINQ

// Pending returns how many bytes a pipe holds, given its write end.
func Pending(fd int) int {
	n, _ := Unread(fd)
	return n
}

// ErrFormat is the error of execve(2), besides ENOEXEC, for a program built for another machine.
const ErrFormat = syscall.ELIBBAD

// action fills in the start of struct sigaction: the handler, followed by fields that are not used.
func action(sig syscall.Signal, to *[16]uintptr) syscall.Errno {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(to)), 8, 0, 0)
	return errno
}

// Environ returns the environment that a process started with, each variable ending in NUL. It returns
// nil if the environment is not available.
func Environ(pid int) []byte {
	env, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return env
}

// PeerUser returns the user ID of the process at the other end of a unix socket.
func PeerUser(fd int) (uint32, error) {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

// ArgMax is the most bytes of arguments and environment that execve(2) accepts, however large the stack
// may be.
const ArgMax = 6 << 20

// SearchDir holds the flags for opening a directory only to open files in it. That needs no permission
// to read the directory.
const SearchDir = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

// IsProc reports whether a directory is in proc(5), whose links only the kernel can follow.
func IsProc(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// Remote reports whether other machines may use the file system of a directory (statfs(2)). It returns
// true if it cannot tell.
func Remote(dir string) bool {
	var st unix.Statfs_t
	if IgnoreEINTR(func() error { return unix.Statfs(dir, &st) }) != nil {
		return true
	}
	switch uint32(st.Type) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC,
		unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CODA_SUPER_MAGIC, unix.OCFS2_SUPER_MAGIC, unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC,
		0x01161970, 0x0bd00bd0, 0x47504653: // GFS2, Lustre, GPFS
		return true
	}
	return false
}

// Mount returns values that identify the mount of a file. If follow is true and path is a symbolic
// link, it is the mount of the link's target. Before Linux 5.8 the values identify the file system.
func Mount(path string, follow bool) [3]uint64 {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if follow {
		flags = 0
	}
	var st unix.Statx_t
	_ = IgnoreEINTR(func() error { return unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_MNT_ID, &st) })
	return [3]uint64{st.Mnt_id, uint64(st.Dev_major), uint64(st.Dev_minor)}
}

// Exchange exchanges two names. It fails with EINVAL or errors.ErrUnsupported if the system or the file
// system does not support that.
func Exchange(a, b string) error {
	return IgnoreEINTR(func() error {
		return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	})
}

// SinceBoot returns the time of a clock that keeps running while the machine or the process is
// suspended.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}

// tick is the unit of times in /proc, on every processor that Go supports on Linux.
const tick = time.Second / 100

// FindProcess describes a process. ok is false if there is no such process or the system hides it.
func FindProcess(pid int) (p Process, ok bool) {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	// PID (NAME) STATE PARENT ...: the name can hold anything
	from, to := bytes.IndexByte(text, '('), bytes.LastIndexByte(text, ')')
	f := strings.Fields(string(text[to+1:]))
	if from < 0 || len(f) < 22 {
		return p, false
	}
	number := func(i int) (n int64) {
		n, _ = strconv.ParseInt(f[i], 10, 64)
		return n
	}
	const exiting, fork = 0x4, 0x40 // PF_EXITING and PF_FORKNOEXEC of linux/sched.h
	return Process{
		PID: pid, Parent: int(number(1)), Group: int(number(2)), Session: int(number(3)),
		Start: number(19), Name: string(text[from+1 : to]),
		Ended:   f[0] == "Z" && f[17] == "1",
		Stopped: f[0] == "T",
		Used:    time.Duration(number(11)+number(12)+number(13)+number(14)) * tick, Memory: number(21) * int64(os.Getpagesize()),
		BeforeExec: number(6)&fork != 0,
		exiting:    number(6)&exiting != 0 || f[0] == "Z" || f[0] == "X",
	}, true
}

// Processes returns all processes that the system shows.
func Processes() (all []Process) {
	names, _ := os.ReadDir("/proc")
	for _, name := range names {
		if pid, err := strconv.Atoi(name.Name()); err == nil {
			if p, ok := FindProcess(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}
