package coproc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/task"
)

// hintAfter is how long a record is unanswered when the lane looks whether its worker
// flushes, and how long until it looks again.
const hintAfter = 3 * time.Second

// hint looks at times whether the worker has read a record and waits for the next one
// without having answered, and tells the user once per run. It returns when it is to be
// called again.
func (w *worker) hint() time.Duration {
	if w.placed == 0 || w.protocol == task.FilterProtocol || w.hinted.Load() {
		return never
	}
	f := &w.waiting()[0]
	at := max(f.since+hintAfter, w.look)
	if w.run < at {
		return at
	}
	w.look = w.run + hintAfter
	if w.waits() && w.hinted.CompareAndSwap(false, true) {
		w.notice(fmt.Sprintf("worker %d has read record %d, answers nothing and waits for more: "+
			"does it flush? python -u, stdbuf -oL, jq --unbuffered, awk fflush()", w.slot.ID, f.record()))
	}
	return w.look
}

// waits reports whether the worker has read all that it got, and a process of its group
// sits in read(2) for more.
func (w *worker) waits() bool {
	if w.sent < len(w.out) || w.p.In < 0 {
		return false
	}
	var pipe unix.Stat_t
	unread, err := unix.IoctlGetInt(w.p.In, unix.TIOCINQ)
	if err != nil || unread > 0 || unix.Fstat(w.p.In, &pipe) != nil {
		return false
	}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		dir := filepath.Dir(name)
		if groupOf(name) == w.p.PID && reads(dir, pipe.Ino) {
			return true
		}
	}
	return false
}

// groupOf returns the process group in a /proc/PID/stat, or 0.
func groupOf(stat string) int {
	text, _ := os.ReadFile(stat)
	behind := bytes.LastIndexByte(text, ')') + 1 // the name of the program
	fields := strings.Fields(string(text[behind:]))
	if len(fields) < 3 {
		return 0
	}
	pgrp, _ := strconv.Atoi(fields[2])
	return pgrp
}

// reads reports whether a thread of a process sits in read(2) of a pipe.
func reads(dir string, pipe uint64) bool {
	calls, _ := filepath.Glob(dir + "/task/*/syscall")
	for _, name := range calls {
		text, _ := os.ReadFile(name)
		call := strings.Fields(string(text))
		if len(call) < 2 || call[0] != strconv.Itoa(unix.SYS_READ) {
			continue
		}
		fd, err := strconv.ParseUint(call[1], 0, 64)
		if err != nil {
			continue
		}
		if link, _ := os.Readlink(dir + "/fd/" + strconv.FormatUint(fd, 10)); link == fmt.Sprintf("pipe:[%d]", pipe) {
			return true
		}
	}
	return false
}
