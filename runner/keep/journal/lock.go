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
	// lockPatience is how long to wait for the lock of a process that is being
	// killed. The kernel releases it only after freeing the process's memory.
	lockPatience = 2 * time.Second
)

// lock locks the directory. The lock is a record lock (fcntl(2)): children do not inherit it, and it ends with the process,
// however that ends. This process must not open the file again, because closing any
// descriptor of it releases the lock.
func (d directory) lock() (*os.File, error) {
	f, err := d.open(lockName, os.O_CREATE)
	if err != nil {
		return nil, err
	}
	if err = takeLock(f, d.path); err != nil {
		f.Close()
	}
	return f, err
}

func takeLock(f *os.File, dir string) error {
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(5 * time.Millisecond) {
		lock := unix.Flock_t{Type: unix.F_WRLCK}
		err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return err
		}
		pid, _ := lockHolder(f) // 0 of another PID namespace
		if pid != 0 && !kernel.Dying(pid) || time.Now().After(deadline) {
			return &InUse{dir, pid}
		}
	}
}

// lockHolder returns the ID of the process that holds the lock of f; 0 if that is a
// process of another PID namespace.
func lockHolder(f *os.File) (pid int, held bool) {
	lock := unix.Flock_t{Type: unix.F_RDLCK} // f may be open for reading only
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
		return 0, false
	}
	return int(lock.Pid), true
}
