package journal

import (
	"os"
	"path/filepath"

	"crew/runner/keep/trust"
)

// directory is the directory of a journal.
type directory struct {
	path  string
	queue bool
}

// openFile opens a file for reading and writing, with more flags such as os.O_CREATE. No other user
// may be able to write it. Files of a queue become unreadable for other users, whatever their mode was.
func (d directory) openFile(name string, flags int) (*os.File, error) {
	mode := os.FileMode(0o644)
	if d.queue {
		mode = 0o600
	}
	f, err := trust.OpenOwn(filepath.Join(d.path, name), os.O_RDWR|flags, mode)
	if err == nil && d.queue {
		if err = f.Chmod(mode); err != nil {
			f.Close()
		}
	}
	return f, err
}
