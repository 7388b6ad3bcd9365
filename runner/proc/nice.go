package proc

import (
	"os"
	"strconv"
	"syscall"

	"crew/runner/kernel"
)

// Nice adds n to the niceness of this process. On Linux every thread has its own
// niceness, and a child inherits that of the thread that started it, so Nice
// changes all threads.
func Nice(n int) error {
	if n == 0 {
		return nil
	}
	now, err := kernel.Niceness()
	if err != nil {
		return err
	}
	want := now + n
	done := map[string]bool{}
	for changed := true; changed; { // a thread created meanwhile may have the old niceness
		changed = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return syscall.Setpriority(syscall.PRIO_PROCESS, 0, want)
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || done[t.Name()] {
				continue
			}
			if err := syscall.Setpriority(syscall.PRIO_PROCESS, tid, want); err != nil && err != syscall.ESRCH {
				return err
			}
			done[t.Name()], changed = true, true
		}
	}
	return nil
}
