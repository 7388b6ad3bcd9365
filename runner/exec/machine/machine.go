// Package machine reads from /proc and from the control groups what a machine, or the part of it
// that this process may use, has to offer: processors, the load, and memory.
package machine

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"crew/runner/exec/kernel"
)

// Machine is this machine. It is safe for concurrent use.
type Machine struct {
	read func(name string) ([]byte, error)
}

// New returns the machine whose /proc and /sys are below a directory, which is empty but for
// tests: the portable form has none, and knows of the processors alone.
func New(root string) *Machine {
	if root == "" && kernel.Portable {
		return &Machine{func(string) ([]byte, error) { return nil, errors.New("this system does not tell it") }}
	}
	return &Machine{func(name string) ([]byte, error) { return os.ReadFile(root + name) }}
}

// Processors returns the number of processors that this process can use: those of its
// affinity mask or, if that is less, the CPU quota of its control group, rounded up. See
// cgroups(7) and Documentation/admin-guide/cgroup-v2.rst, "cpu.max".
func (m *Machine) Processors() int { return m.processors(runtime.NumCPU()) }

func (m *Machine) processors(affinity int) int {
	n := float64(affinity)
	for g := range m.groups("cpu") {
		// One file holds the quota and its period in version 2, each has one in version 1.
		text := g.text("cpu.max")
		if g.old {
			text = g.text("cpu.cfs_quota_us") + " " + g.text("cpu.cfs_period_us")
		}
		if f := strings.Fields(text); len(f) == 2 {
			// Without a limit the quota is "max" or -1.
			quota, err := strconv.ParseUint(f[0], 10, 63)
			period, err2 := strconv.ParseUint(f[1], 10, 63)
			if err == nil && err2 == nil && quota > 0 && period > 0 {
				n = min(n, float64(quota)/float64(period))
			}
		}
	}
	return max(1, int(math.Ceil(n)))
}

// Processes returns how many processes and threads, its own included, this process may come to:
// the least of what the limit on those of its user and the limits of its control group and each
// of its ancestors leave, or math.MaxInt64. See getrlimit(2), RLIMIT_NPROC, and cgroup-v2.rst,
// "pids.max".
func (m *Machine) Processes() int64 { return m.processes(kernel.UserProcesses(), kernel.Threads) }

func (m *Machine) processes(least int64, own func() int64) int64 {
	for g := range m.groups("pids") {
		if most, ok := g.number("pids.max"); ok { // not "max"
			now, _ := g.number("pids.current")
			least = min(least, most-now+own())
		}
	}
	return least
}

// Load returns how many processes and threads of the whole machine have something to do, without
// the calling one: they run, wait for a processor, or wait for a disk. See proc(5), /proc/stat.
func (m *Machine) Load() (float64, error) {
	text, err := m.read("/proc/stat")
	if err != nil {
		return 0, err
	}
	running, ok := number(text, "procs_running")
	blocked, ok2 := number(text, "procs_blocked")
	if !ok || !ok2 {
		return 0, errors.New("/proc/stat does not tell how many processes run")
	}
	return float64(max(0, running-1) + blocked), nil
}

// Memory returns how many bytes are free, or can be made free without swapping, and how many there
// are in all. That is what the machine has or, if it is less, what the control group and each of
// its ancestors allow. See proc(5), /proc/meminfo, and cgroup-v2.rst, "memory.max".
func (m *Machine) Memory() (free, total int64, err error) {
	text, err := m.read("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	free, ok := number(text, "MemAvailable:")
	total, ok2 := number(text, "MemTotal:")
	if !ok || !ok2 {
		return 0, 0, errors.New("/proc/meminfo does not tell how much memory is available")
	}
	free, total = free<<10, total<<10
	for g := range m.groups("memory") {
		limit, used, cache := "memory.max", "memory.current", "inactive_file"
		if g.old {
			limit, used, cache = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
		}
		if most, ok := g.number(limit); ok && most < total { // without a limit it is "max", or very large
			now, _ := g.number(used)
			files, _ := number([]byte(g.text("memory.stat")), cache)
			free, total = min(free, max(0, most-now+min(files, now))), most
		}
	}
	return free, total, nil
}

// number returns the number that follows a name at the beginning of a line.
func number(text []byte, name string) (n int64, ok bool) {
	for line := range bytes.Lines(text) {
		if len(line) > 100 || !bytes.HasPrefix(line, []byte(name)) {
			continue
		}
		if f := bytes.Fields(line); len(f) > 1 && string(f[0]) == name {
			n, err := strconv.ParseInt(string(f[1]), 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// group is a control group.
type group struct {
	machine *Machine
	dir     string
	old     bool // of version 1
}

// text returns what a file of the group holds, or "".
func (g group) text(name string) string {
	text, _ := g.machine.read(path.Join(g.dir, name))
	return string(text)
}

// number returns the number that a file of the group holds, if it does.
func (g group) number(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(g.text(name)), 10, 64)
	return n, err == nil
}

// groups is an iter.Seq of the control groups that control a resource for this process: its own
// and the ancestors of that up to the mount point.
func (m *Machine) groups(controller string) func(yield func(group) bool) {
	return func(yield func(group) bool) {
		text, _ := m.read("/proc/self/cgroup") // unreadable without control groups
		for line := range strings.Lines(string(text)) {
			// hierarchy:controllers:path; in version 2 hierarchy is 0 and controllers is empty.
			part := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
			if len(part) != 3 {
				continue
			}
			var mounts []string
			switch controllers := part[1]; {
			case part[0] == "0" && controllers == "":
				mounts = []string{""}
			case slices.Contains(strings.Split(controllers, ","), controller):
				mounts = slices.Compact([]string{controller, controllers})
			}
			for _, mount := range mounts {
				// In a namespace the path can begin with "/..", above the mount point, where
				// nothing can be read.
				for dir := path.Clean("/" + part[2]); ; dir = path.Dir(dir) {
					if !yield(group{m, path.Join("/sys/fs/cgroup", mount, dir), mount != ""}) {
						return
					}
					if dir == "/" {
						break
					}
				}
			}
		}
	}
}

// Deaths tells which processes the kernel has killed for want of memory. It is safe for
// concurrent use.
type Deaths struct {
	machine *Machine

	mu      sync.Mutex
	count   int64 // processes that were killed, at the last look; math.MaxInt64 before the first
	untold  int64 // of them, those that nobody has asked about
	looked  time.Time
	waiting *time.Timer
}

// A look costs more than the start of a short run may take, so the first one comes later; and
// what was not asked about soon concerns somebody else.
const (
	firstLook = 50 * time.Millisecond
	tellsFor  = time.Second
)

// NewDeaths returns a Deaths that counts from 50 ms later on. Close it.
func NewDeaths(m *Machine) *Deaths {
	d := &Deaths{machine: m, count: math.MaxInt64}
	d.waiting = time.AfterFunc(firstLook, func() { d.look(time.Now()) })
	return d
}

// Close ends the wait for the first look.
func (d *Deaths) Close() { d.waiting.Stop() }

// Another reports whether one more process was killed than Another has reported, since it was
// asked before. Of processes that are killed together, each is told if they are asked about
// within a second.
func (d *Deaths) Another() bool {
	d.look(time.Now())
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.untold == 0 {
		return false
	}
	d.untold--
	return true
}

func (d *Deaths) look(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	count, ok := d.machine.deaths()
	if !ok {
		return
	}
	if now.Sub(d.looked) > tellsFor {
		d.untold = 0
	}
	d.untold += max(0, count-d.count)
	d.count, d.looked = count, now
}

// deaths returns how many processes of this one's control group the kernel has killed for want
// of memory or, without a group that counts them, how many of the machine.
func (m *Machine) deaths() (n int64, ok bool) {
	for g := range m.groups("memory") {
		if n, ok := number([]byte(g.text("memory.events")), "oom_kill"); ok {
			return n, true
		}
		break // the ancestors count those of others, too
	}
	text, _ := m.read("/proc/vmstat")
	return number(text, "oom_kill")
}
