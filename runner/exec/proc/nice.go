package proc

import (
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// Nice adds n to the niceness of this process. On Linux each thread has its own
// niceness, and a child inherits the niceness of the thread that starts it, so Nice
// changes all threads.
func Nice(n int) error {
	if n == 0 {
		return nil
	}
	now, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		return err
	}
	if runtime.GOOS == "linux" { // the system call returns 20 minus the niceness
		now = 20 - now
	}
	done := map[string]bool{}
	for before := -1; len(done) > before; { // a new thread may have the old niceness
		before = len(done)
		threads, _ := filepath.Glob("/proc/self/task/*")
		for _, thread := range append(threads, "0") { // 0 is the calling thread, and on other systems the process
			id, _ := strconv.Atoi(filepath.Base(thread))
			if err := syscall.Setpriority(syscall.PRIO_PROCESS, id, now+n); err != nil && err != syscall.ESRCH {
				return err
			}
			done[thread] = true
		}
	}
	return nil
}
