package engine

import (
	"os"
	"path/filepath"
	"time"

	"crew/runner/steer/control"
)

const (
	lockRetry  = 10 * time.Millisecond // pause before the next try to lock the file
	lockPrefix = "worker."             // begins the names of the files
	lockWait   = 30 * time.Second      // longest wait for the lock
)

// lockHost locks a file on the machine of a worker of --ssh, for its run and host. The worker holds the
// lock and, if the worker is killed, its guardian does until all tasks have ended. So once the next
// worker has the lock, all earlier ones have ended with their tasks. lockHost returns nil if the file
// cannot be opened, or if the earlier worker has not ended within patience.
func lockHost(mark string, patience time.Duration) *os.File {
	dir, err := control.PrivateDir()
	if err != nil || !validName(mark) {
		return nil
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(lockRetry) {
		if f, err := lockFile(filepath.Join(dir, lockPrefix+mark), os.O_CREATE); err == nil {
			return f
		}
	}
	return nil
}

// removeLock removes the file of the lock, if there is one, while the worker still holds the lock.
func (w *worker) removeLock() {
	if w.hostLock != nil {
		_ = os.Remove(w.hostLock.Name())
	}
}
