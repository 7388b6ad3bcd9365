package engine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/control"
	"crew/runner/kernel"
	"crew/runner/trust"
)

// tenure is a file on the machine of a worker of --ssh, which is for one run and host. It
// is locked by the worker and, should that be killed, by its guardian until all tasks have
// ended. So once the next worker has the lock, it knows that the worker which the file names
// has ended with all its tasks.
type tenure struct {
	file   *os.File
	before string // ID of the last worker; "" for none
}

const (
	lockAgain    = 10 * time.Millisecond // the pause before another try to lock the file
	tenurePrefix = "worker."             // of the names of the files
	endedWithin  = 30 * time.Second      // in which the last worker must have ended for the next one to say so
	tenureKept   = 24 * time.Hour        // how long one is kept that no worker has locked
)

// succeed takes the place of the last worker with a mark, which it kills if it is still
// there: its connection has ended. It fails if that worker has not ended within patience.
func succeed(mark string, patience time.Duration) (*tenure, error) {
	path, err := tenurePath(mark)
	if err != nil {
		return nil, err
	}
	sweep(filepath.Dir(path))
	f, err := trust.OpenOwn(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	t := &tenure{file: f}
	for end := time.Now().Add(patience); ; time.Sleep(lockAgain) {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) || time.Now().After(end) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		pid, _ := t.holder()
		killMarked(pid, mark)
	}
	_, t.before = t.holder()
	t.name(t.before) // until this worker has an ID
	return t, nil
}

// tenurePath returns the path of the file for a mark. Machines can share the directory, so
// the name tells this machine from others.
func tenurePath(mark string) (string, error) {
	if !validName(mark) {
		return "", fmt.Errorf("bad mark %q", mark)
	}
	dir, err := control.Dir()
	if err != nil {
		return "", err
	}
	boot, err := kernel.BootID()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, tenurePrefix+mark+"."+boot), nil
}

// sweep removes the files in a directory that runs have left which were killed.
func sweep(dir string) {
	old, _ := filepath.Glob(filepath.Join(dir, tenurePrefix+"*"))
	for _, name := range old {
		f, err := trust.OpenOwn(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		st, err := f.Stat()
		if err == nil && time.Since(st.ModTime()) > tenureKept && unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			if pid, id := (&tenure{file: f}).holder(); pid > 0 && st.Size() == int64(len(holderLine(pid, id))) {
				_ = os.Remove(name) // it is such a file, and nothing else
			}
		}
		f.Close()
	}
}

// holder returns which process has locked the file last, and the ID of the worker; 0 and ""
// if that is not known.
func (t *tenure) holder() (pid int, id string) {
	text := make([]byte, 256)
	n, _ := t.file.ReadAt(text, 0)
	line, _, _ := strings.Cut(string(text[:n]), "\n")
	if f := strings.Fields(line); len(f) > 0 {
		pid, _ = strconv.Atoi(f[0])
		id = strings.Join(f[1:], " ")
	}
	return pid, id
}

// name writes that this process has locked the file, and the ID of the worker. If that
// fails, the next worker knows less.
func (t *tenure) name(id string) {
	line := holderLine(os.Getpid(), id)
	if _, err := t.file.WriteAt([]byte(line), 0); err == nil {
		_ = t.file.Truncate(int64(len(line)))
	}
}

func holderLine(pid int, id string) string { return fmt.Sprintf("%d %s\n", pid, id) }

// end removes the file: no worker comes that has to know of this one. A nil tenure is none.
func (t *tenure) end() {
	if t != nil {
		_ = os.Remove(t.file.Name())
	}
}

// killMarked kills a process if it is a worker with a mark. Another process that has got its
// ID is left alone.
func killMarked(pid int, mark string) {
	if pid <= 0 || pid == os.Getpid() {
		return
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return
	}
	defer p.Release()
	line, err := kernel.CommandLine(pid)
	if err == nil && bytes.Contains(line, []byte("\x00"+stdioURL+mark+"\x00")) {
		_ = p.Kill()
	}
}
