//go:build !crew_portable

package kernel

import "golang.org/x/sys/unix"

// Marks are numbers that a process has marked in a directory, for others to see, until it
// unmarks them or ends. They are not safe for concurrent use. Here they are locks of an open
// file description (fcntl(2)) on bytes of the directory.
type Marks struct{ fd int }

// OpenMarks returns no marks in a directory. name returns the name of a file for a number,
// if it takes files.
func OpenMarks(dir string, _ func(n uint64) string) (*Marks, error) {
	fd, err := reopen(dir, unix.O_DIRECTORY)
	return &Marks{fd}, err
}

// Set marks a number if possible.
func (m *Marks) Set(n uint64) { _, _ = m.lock(unix.F_OFD_SETLK, unix.F_RDLCK, n) }

// Unset unmarks a number.
func (m *Marks) Unset(n uint64) { _, _ = m.lock(unix.F_OFD_SETLK, unix.F_UNLCK, n) }

// Others reports whether other Marks have a number, or it is not known.
func (m *Marks) Others(n uint64) bool {
	kind, err := m.lock(unix.F_OFD_GETLK, unix.F_WRLCK, n)
	return err != nil || kind != unix.F_UNLCK
}

func (m *Marks) lock(cmd int, kind int16, n uint64) (int16, error) {
	lock := unix.Flock_t{Type: kind, Start: int64(n), Len: 1}
	err := unix.FcntlFlock(uintptr(m.fd), cmd, &lock)
	return lock.Type, err
}

// Close unmarks all numbers.
func (m *Marks) Close() { _ = unix.Close(m.fd) }
