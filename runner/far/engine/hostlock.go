package engine

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"crew/runner/steer/control"
)

// hostLock is a locked file on the machine of a worker of --ssh, for one run and host. The worker
// holds the lock and, if the worker is killed, its guardian does until all tasks have ended. So once
// the next worker has the lock, the previous one, whose ID is in the file, has ended with all its
// tasks.
type hostLock struct {
	file     *os.File
	previous string // ID of the previous worker; "" for none
}

const (
	lockRetry  = 10 * time.Millisecond // pause before the next try to lock the file
	lockPrefix = "worker."             // begins the names of the files
	lockText   = "crew worker "        // begins the text of the files; the ID of a worker follows
	lockWait   = 30 * time.Second      // longest wait for the lock
	lockKept   = 24 * time.Hour        // unlocked files are removed at this age
)

// acquireHostLock locks the file for mark. It returns nil if the file cannot be opened, or if the
// previous worker has not ended within patience.
func acquireHostLock(mark string, patience time.Duration) *hostLock {
	dir, err := control.PrivateDir()
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

// removeStaleLocks removes the files that runs have left in dir because they were killed.
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

// owner returns the ID of the worker in the file, or "". ok is false if the file is no lock of a host.
func (l *hostLock) owner() (id string, ok bool) {
	text, _ := os.ReadFile(l.file.Name())
	id, ok = strings.CutPrefix(string(text), lockText)
	return strings.TrimSpace(id), ok
}

// setOwner writes the ID of the worker. If that fails, the next worker does not know its predecessor.
func (l *hostLock) setOwner(id string) { _ = os.WriteFile(l.file.Name(), []byte(lockText+id+"\n"), 0) }

// remove removes the file: no later worker needs it. l may be nil.
func (l *hostLock) remove() {
	if l != nil {
		_ = os.Remove(l.file.Name())
	}
}
