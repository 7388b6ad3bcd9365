package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of times in /proc, on every processor that Go has Linux for.
const tick = time.Second / 100

// usage is the resource usage of a task's processes.
type usage struct {
	cpu    float64 // of one processor, since the last measurement or the start
	memory int64   // resident bytes, of which shared ones count several times
}

// meter measures what attempts use. The zero value is ready for use.
type meter struct {
	root string        // the directory to read; "" is /proc
	at   time.Time     // of the last measurement
	used map[int]int64 // the ticks of each attempt until then, by process id
}

// process is an entry of /proc or a line of ps(1).
type process struct {
	parent, group int
	ticks, pages  int64 // ticks are its own and those of children that have ended
}

// measure returns the usage of attempts, given by process id and start. The
// processes of an attempt are its process group and all their descendants. Those
// that cannot be seen are missing from the result.
func (m *meter) measure(now time.Time, attempts map[int]time.Time) map[int]usage {
	ticks, found := map[int]int64{}, map[int]usage{}
	var all map[int]*process
	if len(attempts) > 0 {
		if all = processes(cmp.Or(m.root, "/proc")); len(all) == 0 {
			all = listed()
		}
	}
	for pid, p := range all {
		owner := ownerOf(pid, all, attempts)
		if owner == 0 {
			continue
		}
		ticks[owner] += p.ticks
		u := found[owner]
		u.memory += p.pages * int64(os.Getpagesize())
		found[owner] = u
	}
	for pid, u := range found {
		since, before := attempts[pid], int64(0)
		if old, ok := m.used[pid]; ok && since.Before(m.at) {
			since, before = m.at, old
		}
		if passed := now.Sub(since); passed >= tick {
			u.cpu = max(0, float64(ticks[pid]-before)) * float64(tick) / float64(passed)
			found[pid] = u
		}
	}
	m.at, m.used = now, ticks
	return found
}

// ownerOf returns the attempt that a process belongs to, or 0.
func ownerOf(pid int, all map[int]*process, attempts map[int]time.Time) int {
	for range all { // a parent's id may have been used again meanwhile: no endless loop
		p := all[pid]
		if _, ok := attempts[pid]; ok {
			return pid
		}
		if p == nil {
			return 0
		}
		if _, ok := attempts[p.group]; ok {
			return p.group
		}
		pid = p.parent
	}
	return 0
}

// processes reads all processes.
func processes(root string) map[int]*process {
	all := map[int]*process{}
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			stat, _ := os.ReadFile(filepath.Join(root, e.Name(), "stat"))
			if p := parseStat(stat); p != nil {
				all[pid] = p
			}
		}
	}
	return all
}

// parseStat reads /proc/PID/stat, see proc_pid_stat(5). It returns nil if the
// process is gone.
func parseStat(stat []byte) *process {
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:]) // from the third field on
	if len(f) < 22 {
		return nil
	}
	n := func(field int) int64 {
		v, _ := strconv.ParseInt(string(f[field-3]), 10, 64)
		return v
	}
	return &process{parent: int(n(4)), group: int(n(5)), ticks: n(14) + n(15) + n(16) + n(17), pages: n(24)}
}

// listed asks ps(1) for all processes, since /proc, if there is one, is not Linux's.
func listed() map[int]*process {
	ps := exec.Command("ps", "-axSo", "pid,ppid,pgid,rss,time") // -S: with children that have ended
	ps.Env = append(os.Environ(), "LC_ALL=C")
	out, _ := ps.Output()
	all := map[int]*process{}
	for line := range strings.Lines(string(out)) {
		var pid int
		var kilobytes int64
		var used string
		p := &process{}
		if n, _ := fmt.Sscan(line, &pid, &p.parent, &p.group, &kilobytes, &used); n == 5 {
			p.ticks, p.pages = ticksOf(used), kilobytes<<10/int64(os.Getpagesize())
			all[pid] = p
		}
	}
	return all
}

// ticksOf reads a time as ps(1) prints it: [[days-]hours:]minutes:seconds[.fraction].
func ticksOf(text string) int64 {
	seconds, days := 0.0, 0
	if before, rest, ok := strings.Cut(text, "-"); ok {
		days, _ = strconv.Atoi(before)
		text = rest
	}
	for part := range strings.SplitSeq(text, ":") {
		n, _ := strconv.ParseFloat(part, 64)
		seconds = seconds*60 + n
	}
	return int64(math.Round((float64(days)*24*60*60 + seconds) * float64(time.Second/tick)))
}
