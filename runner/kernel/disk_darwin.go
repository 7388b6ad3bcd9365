package kernel

import "golang.org/x/sys/unix"

// SearchDir are the flags to open a directory in order to open what is in it. O_SEARCH is
// too new to be relied on, but OpenNoLinks spares its callers the walk.
const SearchDir = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC

const noLinks = 0x20000000 // O_NOFOLLOW_ANY of sys/fcntl.h

// Exchange exchanges two names. It fails with EINVAL or errors.ErrUnsupported if the
// system or the file system cannot do that.
func Exchange(a, b string) error {
	return again(func() error { return unix.RenamexNp(a, b, unix.RENAME_SWAP) })
}

// BootID returns what tells this machine, since it was booted, from all others.
func BootID() (string, error) { return unix.Sysctl("kern.bootsessionuuid") }

// CommandLine returns the words of a process, with NULs between them, and other text before
// and after them.
func CommandLine(pid int) ([]byte, error) { return unix.SysctlRaw("kern.procargs2", pid) }
