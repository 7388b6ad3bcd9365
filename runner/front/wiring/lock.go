package wiring

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"
	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/keep/trust"
)

// takeLock locks the file of --lock with flock(2), as flock(1) does. The lock belongs to the open file,
// which crew shares with the guardian, the process that ends the tasks of a crew that was killed.
func (w *wiring) takeLock() error {
	p := &w.opts.Pool
	if p.Lock == "" {
		return nil
	}
	fd, err := openLock(p.Lock)
	if err != nil {
		return fmt.Errorf("open lock: %w", err)
	}
	// Unlock instead of closing, because the guardian may live a moment longer.
	w.onClose(func() { _ = flock(fd, unix.LOCK_UN, p.Lock) })
	w.lock = fd
	if err = flock(fd, unix.LOCK_EX|unix.LOCK_NB, p.Lock); !errors.Is(err, unix.EWOULDBLOCK) {
		return err
	}
	if p.LockWait == 0 {
		return errLocked(fd, p.Lock, ": to wait for it, add --lock-wait DUR")
	}
	if w.opts.Show.Verbose || isatty.IsTerminal(w.errs.Fd()) && !w.opts.Show.Quiet {
		w.screen.Notice("waiting for " + lockHolder(fd) + ", which has locked " + p.Lock)
	}
	got := make(chan error, 1)
	go func() { got <- flock(fd, unix.LOCK_EX, p.Lock) }() // after a timeout it waits until crew exits
	select {
	case err = <-got:
		return err
	case <-time.After(p.LockWait):
		return errLocked(fd, p.Lock, ", still after "+task.Span(p.LockWait)+": give --lock-wait more time")
	}
}

func errLocked(fd int, path, hint string) error {
	return failure(statusBusy, path+" is locked by "+lockHolder(fd)+hint)
}

// openLock opens a file to lock it, and creates it if it is missing. It opens the file for writing if
// possible, because NFS requires that.
func openLock(path string) (fd int, err error) {
	for _, how := range [...]int{unix.O_RDWR | unix.O_CREAT, unix.O_RDWR, unix.O_RDONLY} {
		// O_NONBLOCK: do not wait at a FIFO.
		fd, failed := trust.Open(path, how|unix.O_NOCTTY|unix.O_NONBLOCK, 0o666)
		if failed == nil {
			return fd, nil
		}
		if err = cmp.Or(err, failed); errors.Is(failed, unix.ENOENT) {
			break // the first error says why it could not be made
		}
	}
	return -1, err
}

func flock(fd, how int, path string) error {
	if err := kernel.IgnoreEINTR(func() error { return unix.Flock(fd, how) }); err != nil {
		return fmt.Errorf("lock %s: %w: give --lock a file on a local file system", path, err)
	}
	return nil
}

// lockHolder returns a phrase for the process that has locked a file, from proc_locks(5). Only Linux has
// that file, and it omits processes of other PID namespaces.
func lockHolder(fd int) string {
	var st unix.Stat_t
	text, err := os.ReadFile("/proc/locks")
	if err != nil || unix.Fstat(fd, &st) != nil {
		return "another process"
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(uint64(st.Dev)), unix.Minor(uint64(st.Dev)), st.Ino)
	for line := range strings.Lines(string(text)) {
		// 1: FLOCK ADVISORY WRITE 4711 08:01:1234 0 EOF
		if f := strings.Fields(line); len(f) > 5 && f[1] == "FLOCK" && f[5] == file {
			return "process " + f[4]
		}
	}
	return "another process"
}
