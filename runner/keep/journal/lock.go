package journal

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
)

const (
	lockName = "lock"
	// lockTimeout is how long to wait for the lock if the process that holds it is being killed, or
	// may be because it is in another PID namespace. The kernel releases the lock only after it has
	// freed the memory of the process.
	lockTimeout = 2 * time.Second
)

// takeLock locks the directory with a record lock (fcntl(2)), which children do not inherit and which
// ends with the process, however that ends. This process must not open the lock file again: closing
// any of its descriptors would release the lock.
func (j *Journal) takeLock() (err error) {
	if j.lock, err = j.openFile(lockName, os.O_CREATE); err != nil {
		return err
	}
	kernel.Poll(lockTimeout, func() bool {
		lock := unix.Flock_t{Type: unix.F_WRLCK}
		err = unix.FcntlFlock(j.lock.Fd(), unix.F_SETLK, &lock)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return true
		}
		pid, _ := lockHolder(j.lock) // 0 in another PID namespace
		err = &InUse{j.cfg.Dir, pid}
		return pid != 0 && !kernel.Dying(pid)
	})
	return err
}

// lockHolder returns the ID of the process that holds the lock of f, or 0 if it is in another PID
// namespace.
func lockHolder(f *os.File) (pid int, held bool) {
	lock := unix.Flock_t{Type: unix.F_RDLCK} // read lock, because f may be read-only
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
		return 0, false
	}
	return int(lock.Pid), true
}
