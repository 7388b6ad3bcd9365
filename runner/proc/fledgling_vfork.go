//go:build amd64 || arm64

package proc

import (
	"math"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"crew/runner/vfork"
)

// fledgling is a guardian that is not a program of its own yet: a process that
// shares crew's memory and waits whether the run is over before it is worth
// one. It must be kept until then.
type fledgling struct {
	room
	wait        syscall.Timespec
	null, table int
}

// newFledgling prepares one that keeps nothing open but /dev/null and the table,
// where that can be had.
func newFledgling(null, table int) *fledgling {
	f := &fledgling{wait: syscall.NsecToTimespec(int64(guardAfter / time.Nanosecond)), null: null, table: table}
	argv, env := guardianCommand(table)
	f.text = make([]byte, 0, 1<<10)
	path, root := f.word("/proc/self/exe"), f.word("/")
	for _, words := range [][]string{argv, env} {
		for _, w := range words {
			f.words = append(f.words, f.word(w))
		}
		f.words = append(f.words, nil)
	}
	f.call(0, syscall.SYS_SETPGID, 0, 0)
	for fd := range uintptr(3) {
		if uintptr(null) != fd {
			f.call(fd, syscall.SYS_DUP3, uintptr(null), fd, 0)
		}
	}
	// Without close_range(2), before Linux 5.9 or under a seccomp filter, it
	// holds the rest for as long as it lives, hardly longer than crew does.
	if unix.CloseRange(math.MaxUint32, math.MaxUint32, 0) == nil {
		if table > 3 {
			f.call(0, unix.SYS_CLOSE_RANGE, 3, uintptr(table-1), 0)
		}
		f.call(0, unix.SYS_CLOSE_RANGE, uintptr(table+1), math.MaxUint32, 0)
	}
	f.call(0, syscall.SYS_FCNTL, uintptr(table), syscall.F_SETFD, 0)
	f.call(0, syscall.SYS_CHDIR, pointer(root))
	f.call(0, syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&f.wait)), 0)
	f.call(0, syscall.SYS_EXECVE, pointer(path), uintptr(unsafe.Pointer(&f.words[0])), uintptr(unsafe.Pointer(&f.words[len(argv)+1])))
	return f
}

// start starts it, or a guardian in its place where the kernel or a seccomp
// filter knows no clone3(2).
func (f *fledgling) start() (pid int, err error) {
	pid, errno := vfork.Start(f.calls)
	switch syscall.Errno(errno) {
	case 0:
		return pid, nil
	case syscall.ENOSYS, syscall.EPERM, syscall.EINVAL:
		return forkGuardian(f.null, f.table)
	}
	return 0, syscall.Errno(errno)
}
