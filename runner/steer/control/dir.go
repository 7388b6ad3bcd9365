package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/keep/trust"
)

// suffix ends the file name of a socket, after the process ID and, if the run has a name, a hyphen and that
// name.
const suffix = ".sock"

// dirs returns the directories for sockets, in order of preference. A run makes its socket in the first one
// that works. A client looks in all of them, because a crew started by cron lacks the variables of a
// login shell.
func dirs() []string {
	uid := strconv.Itoa(os.Geteuid())
	var list []string
	for _, base := range []string{os.Getenv("XDG_RUNTIME_DIR"), "/run/user/" + uid} {
		if filepath.IsAbs(base) && checkDir(base, 0) == nil {
			list = append(list, filepath.Join(base, "crew"))
		}
	}
	for _, base := range []string{os.Getenv("TMPDIR"), "/tmp"} {
		if filepath.IsAbs(base) {
			list = append(list, filepath.Join(base, "crew-"+uid))
		}
	}
	return slices.Compact(list) // equal ones are adjacent
}

// groupAndOthers are the permissions of all users except the owner.
const groupAndOthers = 0o077

// checkDir returns an error unless path is a directory of the user, not a symbolic link, with none of the
// permissions in forbidden.
func checkDir(path string, forbidden uint32) error {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	switch {
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG:
		err = syscall.ENOTDIR
	case err == nil:
		err = trust.CheckOwner(path, &st)
	}
	if err == nil && uint32(st.Mode)&forbidden != 0 {
		err = syscall.EPERM
	}
	return err
}

// errUntrusted returns an error if a directory for sockets is not used because it belongs to another user, or
// others may write to it.
func errUntrusted() error {
	for _, dir := range dirs() {
		if e, ok := errors.AsType[*trust.Error](checkDir(dir, 0)); ok {
			return fmt.Errorf("%w, with XDG_RUNTIME_DIR or TMPDIR", e)
		}
	}
	return nil
}

// listen makes the socket of this process in the first directory that works, and removes the sockets that
// dead runs have left there.
func listen(name string) (l *net.UnixListener, path string, err error) {
	file := strconv.Itoa(os.Getpid())
	if name != "" {
		file += "-" + name
	}
	for _, dir := range dirs() {
		if e := makeDir(dir); e != nil {
			err = e
			continue
		}
		removeDead(dir)
		path := filepath.Join(dir, file+suffix)
		if l, err = listenAt(path); err == nil {
			return l, path, nil
		}
	}
	return nil, "", err
}

// PrivateDir returns a directory for files that concern only this machine and this user, and creates it if
// it is missing. It also holds the sockets of runs.
func PrivateDir() (dir string, err error) {
	for _, dir := range dirs() {
		if err = makeDir(dir); err == nil {
			return dir, nil
		}
	}
	return "", err
}

// makeDir creates dir if it is missing. It fails if others have permissions on it.
func makeDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return checkDir(dir, groupAndOthers)
}

// removeDead removes the sockets of dead runs. It does not connect to the sockets of live processes, which
// would disturb them. A socket with the ID of this process was left by an earlier process.
func removeDead(dir string) {
	for _, path := range sockets(dir) {
		pid, _ := parseName(path)
		if syscall.Kill(pid, 0) == nil && pid != os.Getpid() {
			continue
		}
		if c, err := connect(path, 0); err == nil {
			_ = c.Close()
		}
	}
}

// parseName returns the process ID and the name of the run in the path of a socket, or 0 if path has another form.
func parseName(path string) (pid int, name string) {
	text, ok := strings.CutSuffix(filepath.Base(path), suffix)
	text, name, _ = strings.Cut(text, "-")
	pid, err := strconv.Atoi(text)
	if !ok || err != nil || pid < 1 {
		return 0, ""
	}
	return pid, name
}

// sockets returns the paths of the sockets in dir.
func sockets(dir string) (paths []string) {
	if checkDir(dir, groupAndOthers) != nil {
		return nil
	}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if pid, _ := parseName(e.Name()); pid > 0 && e.Type() == os.ModeSocket {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}
