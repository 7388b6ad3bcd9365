package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockName = "lock"
	// lockPatience is how long to wait for the lock of a process that is being
	// killed. The kernel releases it only after freeing the process's memory.
	lockPatience = 2 * time.Second
)

// lockDir locks dir and writes the process ID into the lock file. The lock is a
// record lock (fcntl(2)): children do not inherit it, and it ends with the process,
// however that ends. This process must not open the file again, because closing any
// descriptor of it releases the lock.
func lockDir(dir string, queue bool) (*os.File, error) {
	f, err := openFile(filepath.Join(dir, lockName), os.O_CREATE, queue)
	if err != nil {
		return nil, err
	}
	if err = takeLock(f, dir); err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(strconv.AppendInt(nil, int64(os.Getpid()), 10), 0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func takeLock(f *os.File, dir string) error {
	for deadline := time.Now().Add(lockPatience); ; time.Sleep(5 * time.Millisecond) {
		lock := unix.Flock_t{Type: unix.F_WRLCK}
		err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return err
		}
		pid, _ := lockHolder(f)
		late := time.Now().After(deadline)
		switch {
		case pid != 0 && (late || !dying(pid)):
			return &InUse{dir, pid}
		case late: // a process of another PID namespace
			return &InUse{dir, 0}
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

// dying reports whether a process has been killed but still exists
// (proc_pid_stat(5), proc_pid_status(5)).
func dying(pid int) bool {
	const exiting = 0x4 // PF_EXITING of linux/sched.h
	base := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(base + "/stat")
	if err != nil {
		return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
	}
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) < 7 {
		return false
	}
	if bits, err := strconv.ParseUint(string(f[6]), 10, 64); err == nil && bits&exiting != 0 {
		return true
	}
	status, _ := os.ReadFile(base + "/status")
	_, pending, _ := bytes.Cut(status, []byte("ShdPnd:\t"))
	pending, _, _ = bytes.Cut(pending, []byte("\n"))
	mask, err := strconv.ParseUint(string(pending), 16, 64)
	return f[0][0] == 'Z' || f[0][0] == 'X' || err == nil && mask&(1<<(syscall.SIGKILL-1)) != 0
}
