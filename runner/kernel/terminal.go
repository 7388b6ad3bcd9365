package kernel

import "golang.org/x/sys/unix"

// Modes returns the modes of a terminal. It fails if the descriptor is none.
func Modes(fd int) (*unix.Termios, error) { return unix.IoctlGetTermios(fd, getModes) }

// SetModes sets the modes of a terminal.
func SetModes(fd int, modes *unix.Termios) error { return unix.IoctlSetTermios(fd, setModes, modes) }

// Unread returns how many bytes a descriptor has to read at once: of a pipe, a terminal or
// a socket.
func Unread(fd int) (int, error) { return unix.IoctlGetInt(fd, unread) }
