//go:build darwin || freebsd

package kernel

import (
	"time"

	"golang.org/x/sys/unix"
)

// IsProc returns false: the links of all file systems can be read.
func IsProc(string) bool { return false }

// Remote reports whether other machines may use the file system of a directory, or it is not
// known (statfs(2)).
func Remote(dir string) bool {
	var st unix.Statfs_t
	return again(func() error { return unix.Statfs(dir, &st) }) != nil || st.Flags&unix.MNT_LOCAL == 0
}

// Mount returns what identifies the file system that a file is on, or the file that a
// symbolic link leads to. Every mount is another file system.
func Mount(path string, follow bool) [3]uint64 {
	stat := unix.Lstat
	if follow {
		stat = unix.Stat
	}
	var st unix.Stat_t
	_ = again(func() error { return stat(path, &st) })
	return [3]uint64{uint64(st.Dev)}
}

// ArgMax is how many bytes of arguments and environment execve(2) takes: 1 MiB on darwin
// and 512 KiB on freebsd, but half as much on its small machines (sys/syslimits.h).
const ArgMax = 256 << 10

// SinceBoot is the time on a clock that goes on while the process is suspended and, on
// darwin, the machine.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}
