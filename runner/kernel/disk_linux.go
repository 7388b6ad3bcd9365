package kernel

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ArgMax is how many bytes of arguments and environment execve(2) takes, however large the
// stack may be.
const ArgMax = 6 << 20

// SearchDir are the flags to open a directory in order to open what is in it: that takes no
// right to read it.
const SearchDir = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC

const noLinks = 0 // the portable form does not use openat2(2)

// IsProc reports whether a directory is one of proc(5), whose links only the kernel can
// follow.
func IsProc(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Type == unix.PROC_SUPER_MAGIC
}

// Remote reports whether other machines may use the file system of a directory, or it is not
// known (statfs(2)).
func Remote(dir string) bool {
	var st unix.Statfs_t
	if again(func() error { return unix.Statfs(dir, &st) }) != nil {
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

// Mount returns what identifies the mount that a file is on, or the file that a symbolic
// link leads to. Before Linux 5.8, that is the file system.
func Mount(path string, follow bool) [3]uint64 {
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT
	if follow {
		flags = 0
	}
	var st unix.Statx_t
	_ = again(func() error { return unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_MNT_ID, &st) })
	return [3]uint64{st.Mnt_id, uint64(st.Dev_major), uint64(st.Dev_minor)}
}

// Exchange exchanges two names. It fails with EINVAL or errors.ErrUnsupported if the
// system or the file system cannot do that.
func Exchange(a, b string) error {
	return again(func() error {
		return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	})
}

// BootID returns what tells this machine, since it was booted, from all others.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

// CommandLine returns the words of a process, with NULs between them.
func CommandLine(pid int) ([]byte, error) {
	return os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
}

// SinceBoot is the time on a clock that goes on while the machine or the process is
// suspended.
func SinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}
