package kernel

import (
	"encoding/hex"

	"golang.org/x/sys/unix"
)

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
