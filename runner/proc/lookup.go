package proc

import (
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// defaultPath is where execvp(3) looks when there is no PATH at all (cron's
// environment has one, env -i has none).
const defaultPath = "/bin:/usr/bin"

// lookup finds programs as execvp(3) does and remembers what it found: a walk
// along PATH for each task costs more than all else that crew does for it.
type lookup struct {
	mu    sync.RWMutex
	found map[string]string // by name, for the run's own PATH and directory
}

func newLookup() *lookup { return &lookup{found: map[string]string{}} }

// cached is find, remembered until forget.
func (l *lookup) cached(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	l.mu.RLock()
	full, ok := l.found[name]
	l.mu.RUnlock()
	if ok {
		return full, nil
	}
	full, err := find(name, path, "")
	if err == nil && filepath.IsAbs(full) {
		l.mu.Lock()
		if len(l.found) < 1024 {
			l.found[name] = full
		}
		l.mu.Unlock()
	}
	return full, err
}

// forget makes the next cached look again: the program has moved.
func (l *lookup) forget(name string) {
	l.mu.Lock()
	delete(l.found, name)
	l.mu.Unlock()
}

// find looks for name along path. Entries of path that are not absolute are
// taken from dir, where the task will run. A name with a slash is itself.
func find(name, path, dir string) (string, error) {
	if name == "" {
		return "", &commandError{name: name, why: "the command is empty", status: 127}
	}
	if strings.Contains(name, "/") {
		return name, nil
	}
	if path == "" {
		path = defaultPath
	}
	denied := false
	for _, d := range filepath.SplitList(path) {
		if d == "" {
			d = "."
		}
		full := d + "/" + name
		seen := full
		if !filepath.IsAbs(d) && dir != "" {
			seen = filepath.Join(dir, full)
		}
		var st syscall.Stat_t
		if syscall.Stat(seen, &st) != nil || st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
			continue
		}
		if unix.Access(seen, unix.X_OK) == nil {
			return full, nil
		}
		denied = true
	}
	if denied {
		return "", &commandError{name: name, why: "permission denied", status: 126}
	}
	return "", &commandError{name: name, why: "command not found", status: 127}
}
