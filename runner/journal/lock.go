package journal

import (
	"bytes"
	"errors"
	"fmt"
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
	// killed: the kernel gives it back when the process's memory is gone.
	lockPatience = 2 * time.Second
)

// lockDir takes the lock of dir: a record lock (fcntl(2)), which no child
// inherits, and which goes with the process however it ends. The file holds the
// number of that process. It must not be opened again by this process: closing
// any descriptor of it would give the lock back.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o666)
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
	for until := time.Now().Add(lockPatience); ; time.Sleep(5 * time.Millisecond) {
		lock := unix.Flock_t{Type: unix.F_WRLCK}
		err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lock)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return err
		}
		pid, late := lockHolder(f), time.Now().After(until)
		switch {
		case pid != 0 && (late || !dying(pid)):
			return fmt.Errorf("%s is in use by crew, process %d", dir, pid)
		case late: // a process of another namespace
			return fmt.Errorf("%s is in use by another crew", dir)
		}
	}
}

// lockHolder is the process that holds the lock of f, or 0.
func lockHolder(f *os.File) int {
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
		return 0
	}
	return int(lock.Pid)
}

// dying says whether a process has been killed and is not gone yet
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

// holder is the process that holds the lock of dir, or "".
func holder(dir string) string {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDONLY, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	lock := unix.Flock_t{Type: unix.F_RDLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_GETLK, &lock); err != nil || lock.Type == unix.F_UNLCK {
		return ""
	}
	return strconv.Itoa(int(lock.Pid))
}
