package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"crew/runner/exec/kernel"
)

// tick is the resolution of the CPU time of processes.
const tick = time.Second / 100

// usage is the resource usage of a task's processes.
type usage struct {
	used   time.Duration // CPU time so far
	cpu    float64       // share of one processor since the last measurement or the start
	memory int64         // resident bytes; pages shared by processes count several times
}

// meter measures the resource usage of attempts.
type meter struct {
	list func() []kernel.Process // returns all processes
	at   time.Time               // of the last measurement
	last map[int]usage           // its result
}

// measure returns the usage of attempts by process ID. attempts maps process IDs to start times. An
// attempt consists of its process group and all descendants of that. Attempts whose processes cannot be
// seen are missing from the result.
func (m *meter) measure(now time.Time, attempts map[int]time.Time) map[int]usage {
	found, all := map[int]usage{}, map[int]*kernel.Process{}
	if len(attempts) > 0 {
		for _, p := range m.list() {
			all[p.PID] = &p
		}
	}
	for pid, p := range all {
		if owner := ownerOf(pid, all, attempts); owner != 0 {
			u := found[owner]
			found[owner] = usage{used: u.used + p.Used, memory: u.memory + p.Memory}
		}
	}
	for pid, u := range found {
		since, before := attempts[pid], time.Duration(0)
		if old, ok := m.last[pid]; ok && since.Before(m.at) {
			since, before = m.at, old.used
		}
		if passed := now.Sub(since); passed >= tick {
			u.cpu = max(0, float64(u.used-before)) / float64(passed)
			found[pid] = u
		}
	}
	m.at, m.last = now, found
	return found
}

// ownerOf returns the attempt that a process belongs to, or 0.
func ownerOf(pid int, all map[int]*kernel.Process, attempts map[int]time.Time) int {
	for range all { // bounded, because a reused parent ID could make a cycle
		p := all[pid]
		if _, ok := attempts[pid]; ok {
			return pid
		}
		if p == nil {
			return 0
		}
		if _, ok := attempts[p.Group]; ok {
			return p.Group
		}
		pid = p.Parent
	}
	return 0
}

// processes returns all processes.
func processes() []kernel.Process {
	all := kernel.Processes()
	if slices.ContainsFunc(all, func(p kernel.Process) bool { return p.Memory > 0 }) {
		return all
	}
	return listed()
}

// listed gets all processes from ps(1), for systems where the kernel package does not know their usage.
func listed() (all []kernel.Process) {
	ps := exec.Command("ps", "-axSo", "pid,ppid,pgid,rss,time") // -S: with children that have ended
	ps.Env = append(os.Environ(), "LC_ALL=C")
	out, _ := ps.Output()
	for line := range strings.Lines(string(out)) {
		var p kernel.Process
		var used string
		if n, _ := fmt.Sscan(line, &p.PID, &p.Parent, &p.Group, &p.Memory, &used); n == 5 {
			p.Used, _ = time.ParseDuration(strings.Replace(used, ":", "m", 1) + "s") // 75:00.50 on these systems
			p.Memory <<= 10
			all = append(all, p)
		}
	}
	return all
}
