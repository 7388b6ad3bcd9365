//go:build !linux || crew_portable

package kernel

import "golang.org/x/sys/unix"

// Marks are numbers that a process has marked in a directory, for others to see, until it
// unmarks them or ends. They are not safe for concurrent use. Here each is a file in the
// directory that is locked (flock(2)): locks of bytes (fcntl(2)) would end as soon as this
// process closes any other descriptor of the same file.
type Marks struct {
	dir   string
	name  func(n uint64) string
	files map[uint64]int
}

// OpenMarks returns no marks in a directory. name returns the name of a file for a number.
func OpenMarks(dir string, name func(n uint64) string) (*Marks, error) {
	return &Marks{dir, name, map[uint64]int{}}, nil
}

func (m *Marks) path(n uint64) string { return m.dir + "/" + m.name(n) }

// Set marks a number if possible.
func (m *Marks) Set(n uint64) {
	for m.files[n] == 0 {
		fd, err := reopen(m.path(n), unix.O_CREAT|unix.O_NOFOLLOW)
		if err != nil {
			return
		}
		var st unix.Stat_t
		if err = flock(fd, unix.LOCK_EX); err == nil {
			err = unix.Fstat(fd, &st)
		}
		switch {
		case err != nil:
			_ = unix.Unlink(m.path(n))
			_ = unix.Close(fd)
			return
		case st.Nlink > 0:
			m.files[n] = fd
		default: // before it was locked, others have taken it for an old one
			_ = unix.Close(fd)
		}
	}
}

// Unset unmarks a number.
func (m *Marks) Unset(n uint64) {
	if fd := m.files[n]; fd > 0 {
		_ = unix.Unlink(m.path(n))
		_ = unix.Close(fd)
		delete(m.files, n)
	}
}

// Others reports whether other Marks have a number, or it is not known. It removes the file
// of a process that has ended.
func (m *Marks) Others(n uint64) bool {
	fd, err := reopen(m.path(n), unix.O_NOFOLLOW)
	if err != nil {
		return err != unix.ENOENT
	}
	defer unix.Close(fd)
	if flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return true
	}
	_ = unix.Unlink(m.path(n))
	return false
}

// Close unmarks all numbers.
func (m *Marks) Close() {
	for n := range m.files {
		m.Unset(n)
	}
}

func flock(fd, how int) error { return again(func() error { return unix.Flock(fd, how) }) }
