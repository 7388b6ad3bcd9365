package proc

import (
	"os"
	"strconv"
	"syscall"
)

// Nice adds n to the niceness of this process, of all its threads: on Linux
// each has its own, and a task inherits that of the thread that started it.
func Nice(n int) error {
	if n == 0 {
		return nil
	}
	// getpriority(2) as a system call gives 20 minus the niceness.
	now, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		return err
	}
	want := 20 - now + n
	done := map[string]bool{}
	for changed := true; changed; { // a thread that is born meanwhile may have the old one
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
