package wiring

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/machine"
	"crew/sched"
)

const (
	maxJobs      = 4096    // workers with -j0; more only slow a machine down
	maxJobsValue = 1 << 20 // largest number that -j takes
)

// parseJobs parses N, N%, +N, -N or 0 and reports whether s has one of these forms. n is 0 only for "0".
// processors is called only if the form depends on it.
func parseJobs(s string, processors func() int) (n int, ok bool) {
	form, digits := byte(0), s
	switch {
	case strings.HasPrefix(s, "+"), strings.HasPrefix(s, "-"):
		form, digits = s[0], s[1:]
	case strings.HasSuffix(s, "%"):
		form, digits = '%', s[:len(s)-1]
	}
	written, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || written > maxJobsValue {
		return 0, false
	}
	switch n = int(written); form {
	case '%':
		n = processors() * n / 100
	case '+':
		n = processors() + n
	case '-':
		n = processors() - n
	default:
		return n, true
	}
	return max(1, n), true
}

// readJobs returns the number of workers that s stands for. If s has no form of parseJobs, it is the name
// of a file that holds one; file is then that name, and 0 in the file means a pause. Otherwise 0 means most.
// The error does not repeat s.
func readJobs(s string, most int) (n int, file string, err error) {
	here := machine.New("").Processors
	if n, ok := parseJobs(s, here); ok {
		if n == 0 {
			n = most
		}
		return n, "", nil
	}
	// Reading a FIFO would wait for a writer, and works only once.
	if st, err := os.Stat(s); err == nil && !st.Mode().IsRegular() {
		return 0, "", errors.New("the file must be a regular one, because crew reads it again when it changes")
	}
	text, err := os.ReadFile(s)
	if err != nil {
		return 0, "", fmt.Errorf("write N, N%%, +N, -N, 0, auto, or a file that holds a number; N is at most %d", maxJobsValue)
	}
	n, ok := parseJobs(strings.TrimSpace(string(text)), here)
	if !ok {
		return 0, "", fmt.Errorf("that file must hold N, N%%, +N, -N, or 0 for a pause; N is at most %d", maxJobsValue)
	}
	return n, s, nil
}

// jobsInterval is how often the --jobs file is checked for changes.
const jobsInterval = 500 * time.Millisecond

// watchJobs rereads the --jobs file whenever it changes, and resizes or pauses the pool, until stop is
// called. now is the number that was last read from it. If the file is missing or holds no number of
// workers, the pool stays as it is and notice is called once. watchJobs does not wait for notice.
func watchJobs(file string, now int, do func(task.Command), notice func(string)) (stop func()) {
	apply := func(n int) {
		if n == 0 {
			do(task.Command{Op: task.Pause})
			go notice("paused: --jobs " + file + " says 0")
		} else if do(task.Command{Op: task.Resize, N: n}); now == 0 {
			go notice(fmt.Sprintf("resumed: --jobs %s says %d", file, n))
			do(task.Command{Op: task.Resume})
		}
		now = n
	}
	if now == 0 {
		apply(0)
	}
	return watchFiles([]string{file}, jobsInterval, func(gone error) {
		n, err := now, errors.Unwrap(gone) // without the path
		if gone == nil {
			n, _, err = readJobs(file, maxJobs)
		}
		switch {
		case err != nil:
			go notice(fmt.Sprintf("--jobs %s: %v: the number of workers stays as it is", file, err))
		case n != now:
			apply(n)
		}
	})
}

const (
	autoInterval = 250 * time.Millisecond
	failurePart  = 0.9 // of a task is lost if it fails: errors may come fast
	shortMemory  = 20  // memory is short if less than one part in so many is available
)

// adjustJobs resizes the pool as auto says, until stop is called or the user has resized it.
func adjustJobs(auto *sched.Auto, do func(task.Command) task.Reply, resized *atomic.Bool) (stop func()) {
	here, last := machine.New(""), time.Now()
	return repeat(autoInterval, func() (pause time.Duration) {
		now := do(task.Command{Op: task.Look}).Snapshot
		if now == nil || resized.Load() {
			return 0
		}
		st := now.Stats.WithoutEarlier()
		s := sched.Sample{Good: float64(st.ByOutcome[task.OK]+st.ByOutcome[task.Skipped]) + (1-failurePart)*float64(st.Failed()), Ran: st.Ran, Busy: st.Busy, Idle: now.Blocking == nil || now.Blocking.By != task.BySlots}
		if free, total, err := here.Memory(); err == nil {
			s.Short = free < total/shortMemory
		}
		if before, n := auto.Workers(), auto.Next(s, time.Since(last)); n != before {
			do(task.Command{Op: task.Resize, N: n})
		}
		last = time.Now()
		return autoInterval
	})
}

// repeat calls f again and again, after the given pause and then after each that f returns, until f returns 0
// or stop is called. When stop returns, no call of f is in progress.
func repeat(pause time.Duration, f func() (pause time.Duration)) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for pause > 0 {
			select {
			case <-quit:
				return
			case <-time.After(pause):
				pause = f()
			}
		}
	}()
	return func() { close(quit); <-done }
}

// watchFiles calls changed when one of the files was changed, replaced or removed, and has then stayed the
// same for two checks, so it is not half written. It also calls changed once for the initial state. gone
// is the error of a file that cannot be examined. watchFiles polls, because that works on every file
// system, unlike notification. When stop returns, no call of changed is in progress.
func watchFiles(files []string, every time.Duration, changed func(gone error)) (stop func()) {
	last, fresh := "", true
	return repeat(every, func() time.Duration {
		now, gone := stampAll(files)
		if now != last {
			last, fresh = now, true
		} else if fresh {
			fresh = false
			changed(gone)
		}
		return every
	})
}

// stampAll returns the stamps of files, and the first error of a file that cannot be examined.
func stampAll(files []string) (stamps string, gone error) {
	for _, file := range files {
		if st, err := os.Stat(file); err != nil {
			gone = cmp.Or(gone, err)
		} else {
			stamps += stamp(st)
		}
		stamps += "\n"
	}
	return stamps, gone
}

// stamp returns a string that changes if a file is modified or replaced.
func stamp(st os.FileInfo) string {
	inode := uint64(0)
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		inode = sys.Ino
	}
	return fmt.Sprintf("%d-%d-%d", st.Size(), st.ModTime().UnixNano(), inode)
}
