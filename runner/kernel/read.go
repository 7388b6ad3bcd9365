package kernel

import (
	"slices"
	"syscall"
)

// ReadFile reads a small file, such as one of /proc, without an os.File, the first of which
// starts the runtime's poller. That takes longer than to read the file.
func ReadFile(name string) ([]byte, error) {
	fd, err := syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer syscall.Close(fd)
	text := make([]byte, 0, 1024)
	for {
		n, err := syscall.Read(fd, text[len(text):cap(text)])
		if n <= 0 {
			return text, err
		}
		if text = text[:len(text)+n]; len(text) == cap(text) {
			text = slices.Grow(text, len(text))
		}
	}
}
