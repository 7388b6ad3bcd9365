package proc

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// defaultPath is the search path of execvp(3) if PATH is not set, as with env -i.
const defaultPath = "/bin:/usr/bin"

// lookup finds programs as execvp(3) does, and caches them: a search of PATH costs
// more than everything else that crew does for a task. It is safe for concurrent
// use.
type lookup struct {
	path  string // the PATH that the cache is valid for, in crew's own directory
	mu    sync.RWMutex
	found map[string]string // paths by name
}

// find returns the path of a program for a task with this PATH and directory. It returns a name
// with a slash unchanged.
func (l *lookup) find(name, path, dir string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	if path != l.path || dir != "" {
		return searchPath(name, path, dir)
	}
	l.mu.RLock()
	full, ok := l.found[name]
	l.mu.RUnlock()
	if ok {
		return full, nil
	}
	full, err := searchPath(name, path, "")
	if err == nil && filepath.IsAbs(full) {
		l.mu.Lock()
		if len(l.found) < 1024 {
			l.found[name] = full
		}
		l.mu.Unlock()
	}
	return full, err
}

// forget removes a name from the cache, because the program may have moved, and
// reports whether it was cached.
func (l *lookup) forget(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.found[name]
	delete(l.found, name)
	return ok
}

// Find looks for a program as a task in dir with crew's environment does. If the task cannot run the
// program, it returns the exit status of such a task and the reason. Otherwise it returns 0 and nil.
func Find(name, dir string) (status int, err error) {
	full := name
	if !strings.Contains(name, "/") {
		full, err = searchPath(name, os.Getenv("PATH"), dir)
	}
	if err == nil && !filepath.IsAbs(full) {
		full = filepath.Join(cmp.Or(dir, "."), full)
	}
	if err == nil {
		if err = unix.Access(full, unix.X_OK); err != nil {
			err = explainStartError(err, name, full, dir)
		}
	}
	if bad, ok := errors.AsType[*commandError](err); ok {
		return bad.status, bad
	}
	return 0, nil
}

// searchPath searches path for a program. Relative entries of path are relative to dir, the
// directory that the task runs in.
func searchPath(name, path, dir string) (string, error) {
	if path == "" {
		path = defaultPath
	}
	err := &commandError{name, "command not found", 127}
	for _, d := range filepath.SplitList(path) {
		full := cmp.Or(d, ".") + "/" + name
		seen := full
		if !filepath.IsAbs(full) {
			seen = filepath.Join(dir, full)
		}
		var st syscall.Stat_t
		if syscall.Stat(seen, &st) != nil || st.Mode&syscall.S_IFMT == syscall.S_IFDIR {
			continue
		}
		if unix.Access(seen, unix.X_OK) == nil {
			return full, nil
		}
		err = &commandError{name, "permission denied", 126}
	}
	return "", err
}
