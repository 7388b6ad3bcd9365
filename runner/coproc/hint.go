package coproc

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/task"
)

const (
	// So long is a record unanswered when the loop looks whether its worker flushes.
	hintAfter = 3 * time.Second
	lastAfter = 500 * time.Millisecond // if no record will follow
	lookAgain = 100 * time.Millisecond // at least, until it looks again

	readyAfter = 10 * time.Second // how long a worker may say nothing that Life.Ready matches
)

// hint looks at times whether the worker has read a record and waits for the next one
// without having answered, and tells the user once per run. If no record will follow, it
// closes the worker's stdin, at which a program writes what it has held back. It returns
// when it is to be called again.
func (w *worker) hint() time.Duration {
	if !w.ready {
		return w.unready()
	}
	last := w.left != task.LeftMore || w.retired
	if w.placed == 0 || w.protocol == task.FilterProtocol || w.dismissed || !last && w.hinted.Load() {
		return never
	}
	f := &w.waiting()[0]
	after := hintAfter
	if last && w.protocol != task.JSONProtocol { // one that reads on may be at work on all that it has read
		after = lastAfter
	}
	at := max(f.since+after, w.look)
	if w.run < at {
		return at
	}
	// A look takes longer the more processes there are.
	w.look = w.run + min(max((w.run-f.since)/8, lookAgain), hintAfter)
	if !w.waits() {
		return w.look
	}
	if w.hinted.CompareAndSwap(false, true) {
		w.notice(fmt.Sprintf("worker %d has read record %d, answers nothing and waits for more: "+
			"does it flush? python -u, stdbuf -oL, jq --unbuffered, awk fflush()%s", w.slot.ID, f.record(), w.saying()))
	}
	if last {
		w.dismiss()
	}
	return w.look
}

// unready ends a worker that is not ready in time, and tells the user once per run of one
// that takes long. It returns when it is to be called again.
func (w *worker) unready() time.Duration {
	line := "a line on stdout that matches " + task.Quote(w.cfg.Life.Ready.String())
	end := never
	if limit := w.cfg.Life.Start; limit > 0 {
		if end = w.born + limit; w.run >= end {
			w.neverRead(fmt.Sprintf("it did not say within %v that it is ready: expected %s", limit, line)) // what it says is added
			w.finish(false)
			return w.killAt
		}
	}
	at := w.born + readyAfter
	if w.run >= at {
		if at = never; w.slow.CompareAndSwap(false, true) {
			w.notice(fmt.Sprintf("worker %d has not said that it is ready for %d s: expected %s%s",
				w.slot.ID, int(readyAfter.Seconds()), line, w.saying()))
		}
	}
	return min(at, end)
}

// saying returns the end of what the worker has written on stderr since its latest
// answer, as a part of a message.
func (w *worker) saying() string {
	if last := lastLines(w.said); last != "" {
		return "; on standard error it says: " + last
	}
	return ""
}

// waits reports whether the worker has read all that it got and written nothing since, a
// process of its group sits in read(2) for more, and none is running.
func (w *worker) waits() bool {
	if w.sent < len(w.out) || w.p.In < 0 {
		return false
	}
	var pipe unix.Stat_t
	unread, err := unix.IoctlGetInt(w.p.In, unix.TIOCINQ)
	if err != nil || unread > 0 || unix.Fstat(w.p.In, &pipe) != nil {
		return false
	}
	waits := false
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if group, err := unix.Getpgid(pid); err == nil && group == w.p.PID {
			reads, busy := stateOf(dir, pipe.Ino)
			if busy {
				return false
			}
			waits = waits || reads
		}
	}
	// It may have answered just before it read on.
	came, _ := unix.IoctlGetInt(w.p.Out, unix.TIOCINQ)
	return waits && came == 0
}

// stateOf reports whether a thread of a process sits in read(2) of a pipe, and whether
// one is running.
func stateOf(dir string, pipe uint64) (reads, busy bool) {
	calls, _ := filepath.Glob(dir + "/task/*/syscall")
	for _, name := range calls {
		text, _ := os.ReadFile(name)
		call := strings.Fields(string(text))
		switch {
		case len(call) == 1 && call[0] == "running":
			return false, true
		case len(call) < 2 || call[0] != strconv.Itoa(unix.SYS_READ):
			continue
		}
		fd, err := strconv.ParseUint(call[1], 0, 64)
		if err != nil {
			continue
		}
		link, _ := os.Readlink(dir + "/fd/" + strconv.FormatUint(fd, 10))
		reads = reads || link == fmt.Sprintf("pipe:[%d]", pipe)
	}
	return reads, false
}
