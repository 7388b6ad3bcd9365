package control

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// coming begins the name of an empty file that says that a crew serve is about to make its
// socket. Its process ID and its name, which may be empty, follow, each behind a dot.
const coming = "coming"

// Comes says that this process is a crew serve that is about to make its socket, until gone is
// called. Where that cannot be said, nothing happens.
func Comes(name string) (gone func()) {
	for _, dir := range dirs() {
		_ = os.Mkdir(dir, 0o700)
		if inspect(dir, others) != nil {
			continue
		}
		path := filepath.Join(dir, coming+"."+strconv.Itoa(os.Getpid())+"."+name)
		if os.WriteFile(path, nil, 0o600) == nil {
			return sync.OnceFunc(func() { _ = os.Remove(path) })
		}
	}
	return func() {}
}

// IsComing reports whether a crew serve of that name, or with "" any, is about to make its
// socket.
func IsComing(name string) (is bool) {
	for _, dir := range dirs() {
		if inspect(dir, others) != nil {
			continue
		}
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			part := strings.SplitN(e.Name(), ".", 3)
			if len(part) < 3 || part[0] != coming {
				continue
			}
			pid, err := strconv.Atoi(part[1])
			if err != nil || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) { // it was killed
				_ = os.Remove(filepath.Join(dir, e.Name()))
			} else if name == "" || name == part[2] {
				is = true
			}
		}
	}
	return is
}
