package engine

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"crew/runner/steer/control"
)

// tenure is a file on the machine of a worker of --ssh, which is for one run and host. It
// is locked by the worker and, should that be killed, by its guardian until all tasks have
// ended. So once the next worker has the lock, it knows that the worker which the file names
// has ended with all its tasks.
type hostLock struct {
	file     *os.File
	previous string // ID of the last worker; "" for none
}

const (
	lockRetry  = 10 * time.Millisecond // the pause before another try to lock the file
	lockPrefix = "worker."             // of the names of the files
	lockText   = "crew worker "        // with which they begin; the ID of a worker follows
	lockWait   = 30 * time.Second      // in which the last worker must have ended for the next one to say so
	lockKept   = 24 * time.Hour        // how long one is kept that no worker has locked
)

// succeed takes the place of the last worker with a mark. It returns nil if that worker has not
// ended within patience, or there is no such file.
func acquireHostLock(mark string, patience time.Duration) *hostLock {
	dir, err := control.Dir()
	if err != nil || !validName(mark) {
		return nil
	}
	removeStaleLocks(dir)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(lockRetry) {
		if f, err := lockFile(filepath.Join(dir, lockPrefix+mark), os.O_CREATE); err == nil {
			l := &hostLock{file: f}
			l.previous, _ = l.owner()
			l.setOwner(l.previous) // until this worker has an ID
			return l
		}
	}
	return nil
}

// sweep removes the files in a directory that runs have left which were killed.
func removeStaleLocks(dir string) {
	old, _ := filepath.Glob(filepath.Join(dir, lockPrefix+"*"))
	for _, name := range old {
		if st, err := os.Lstat(name); err != nil || time.Since(st.ModTime()) < lockKept {
			continue
		}
		if f, err := lockFile(name, 0); err == nil {
			if _, ok := (&hostLock{file: f}).owner(); ok {
				_ = os.Remove(name)
			}
			f.Close()
		}
	}
}

// last returns the ID of the worker that the file names, or "". It returns false if the file is
// none of a tenure.
func (l *hostLock) owner() (id string, ok bool) {
	text, _ := os.ReadFile(l.file.Name())
	id, ok = strings.CutPrefix(string(text), lockText)
	return strings.TrimSpace(id), ok
}

// name writes the ID of the worker. If that fails, the next worker knows less.
func (l *hostLock) setOwner(id string) { _ = os.WriteFile(l.file.Name(), []byte(lockText+id+"\n"), 0) }

// end removes the file: no worker comes that has to know of this one. A nil tenure is none.
func (l *hostLock) remove() {
	if l != nil {
		_ = os.Remove(l.file.Name())
	}
}
