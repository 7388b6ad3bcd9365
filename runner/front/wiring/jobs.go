package wiring

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/machine"
	"crew/runner/exec/proc"
)

const (
	mostJobs    = 4096    // workers with -j 0; more only slow a machine down
	mostWritten = 1 << 20 // largest number in -j
)

// parseJobs reads N, N%, +N, -N or 0 and reports whether s is one of them. n is 0 for a
// 0 alone. processors is called only if the form depends on it.
func parseJobs(s string, processors func() int) (n int, ok bool) {
	form, digits := byte(0), s
	switch {
	case strings.HasPrefix(s, "+"), strings.HasPrefix(s, "-"):
		form, digits = s[0], s[1:]
	case strings.HasSuffix(s, "%"):
		form, digits = '%', s[:len(s)-1]
	}
	written, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || written > mostWritten {
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

// readJobs returns the number of workers that s stands for. If s is not in a form
// of parseJobs, it is the name of a file that holds one; file is that name then,
// and a 0 in it means a pause. processes is how many there may be. The error does not repeat s.
func readJobs(s string, processes int64) (n int, file string, err error) {
	if n, ok := parseJobs(s, hereProcessors); ok {
		if n == 0 {
			n = mostTasks(kernel.Limit(syscall.RLIMIT_NOFILE), processes)
		}
		return n, "", nil
	}
	// Reading a FIFO would wait for a writer, and works only once.
	if st, err := os.Stat(s); err == nil && !st.Mode().IsRegular() {
		return 0, "", errors.New("a file of workers must be a regular one, which can be read again")
	}
	text, err := os.ReadFile(s)
	if err != nil {
		return 0, "", fmt.Errorf("write N, N%%, +N, -N, 0, or a file that holds one of them; N is at most %d", mostWritten)
	}
	n, ok := parseJobs(strings.TrimSpace(string(text)), hereProcessors)
	if !ok {
		return 0, "", fmt.Errorf("that file must hold N, N%%, +N, -N, or 0 for a pause; N is at most %d", mostWritten)
	}
	return n, s, nil
}

// jobsEvery is how often the file of --jobs is looked at.
const jobsEvery = 500 * time.Millisecond

// watchJobs reads the file of --jobs again whenever it has changed, and resizes or
// pauses the pool, until stop is called. now is the number that was read from it
// before. If the file is gone or holds no number of workers, the pool stays as it
// is and notice is called once. watchJobs does not wait for notice.
func watchJobs(file string, now int, do func(task.Command), notice func(string)) (stop func()) {
	if now == 0 {
		applyJobs(1, 0, file, do, notice)
	}
	return watch([]string{file}, jobsEvery, func(gone error) {
		n, err := now, errors.Unwrap(gone) // without the path
		if gone == nil {
			n, _, err = readJobs(file, math.MaxInt64)
		}
		switch {
		case err != nil:
			go notice(fmt.Sprintf("--jobs %s: %v: the number of workers stays as it is", file, err))
		case n != now:
			applyJobs(now, n, file, do, notice)
			now = n
		}
	})
}

// applyJobs resizes, pauses or resumes the pool once its file says now instead of
// before.
func applyJobs(before, now int, file string, do func(task.Command), notice func(string)) {
	if now == 0 {
		do(task.Command{Op: task.Pause})
		go notice("paused: --jobs " + file + " says 0")
		return
	}
	do(task.Command{Op: task.Resize, N: now})
	if before == 0 {
		go notice(fmt.Sprintf("going on: --jobs %s says %d", file, now))
		do(task.Command{Op: task.Resume})
	}
}

// hereProcessors returns the number of processors that crew can use.
func hereProcessors() int { return machine.New("").Processors() }

// mostTasks returns how many tasks can run at once with so many descriptors, and so many
// processes and threads. It allows four descriptors for each task and 32 for crew.
func mostTasks(files uint64, processes int64) int {
	if files < 32+4 {
		return 1
	}
	return int(min(mostJobs, (files-32)/4, uint64(proc.AtOnce(processes))))
}

// watch calls changed when one of files has been changed, replaced or removed, and was the
// same at two looks since: it is not half written then. gone is the error of one that cannot
// be looked at. The first call is about how the files are at the start. Polling works on
// every file system, unlike notification. No call is under way once stop returns.
func watch(files []string, every time.Duration, changed func(gone error)) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(every)
		defer t.Stop()
		last, fresh := "", true
		for {
			select {
			case <-quit:
				return
			case <-t.C:
			}
			now, gone := look(files)
			if now != last {
				last, fresh = now, true
			} else if fresh {
				fresh = false
				changed(gone)
			}
		}
	}()
	return func() { close(quit); <-done }
}

// look returns the stamps of files, and why one cannot be looked at.
func look(files []string) (stamps string, gone error) {
	for _, file := range files {
		st, err := os.Stat(file)
		if err != nil {
			gone = cmp.Or(gone, err)
			stamps += "\n"
			continue
		}
		stamps += stamp(st) + "\n"
	}
	return stamps, gone
}

// stamp returns what changes with the content of a file, and if another one takes its place.
func stamp(st os.FileInfo) string {
	inode := uint64(0)
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		inode = sys.Ino
	}
	return fmt.Sprintf("%d-%d-%d", st.Size(), st.ModTime().UnixNano(), inode)
}
