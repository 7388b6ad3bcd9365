package spool

import (
	"os"

	"golang.org/x/sys/unix"
)

// openUnnamed makes a file in dir that never has a name (open(2), O_TMPFILE),
// or one that loses it at once where the file system knows no such thing.
func openUnnamed(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE|os.O_EXCL, 0o600)
	if err != nil {
		return createRemoved(dir)
	}
	return f, nil
}
