package proc

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// defaultPath is the search path of execvp(3) if PATH is not set (env -i).
const defaultPath = "/bin:/usr/bin"

// Find looks for a program as a task with the environment of crew would, which runs in
// dir. It returns the exit status of a task that cannot run it, and why.
func Find(name, dir string) (status int, err error) {
	full, err := find(name, os.Getenv("PATH"), dir)
	if err == nil && !filepath.IsAbs(full) {
		full = filepath.Join(cmp.Or(dir, "."), full)
	}
	if err == nil {
		if err = unix.Access(full, unix.X_OK); err != nil {
			err = explain(err, name, full, dir)
		}
	}
	if bad, ok := errors.AsType[*commandError](err); ok {
		return bad.status, bad
	}
	return 0, nil
}

// find searches path for a program, as execvp(3) does. Relative entries of path are relative to
// dir, where the task will run. A name with a slash stands for itself.
func find(name, path, dir string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
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
