package spool

import (
	"os"

	"golang.org/x/sys/unix"
)

// Unnamed makes a file in dir that never has a name (open(2), O_TMPFILE), or one
// that loses it at once where the file system knows no such thing. It is open for
// reading and writing.
func Unnamed(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDWR|unix.O_TMPFILE|os.O_EXCL, 0o600)
	if err != nil {
		return removed(dir)
	}
	return f, nil
}

func removed(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "crew-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
