// Package machine reads from /proc and the control groups which resources a machine, or the part of it
// that this process may use, has to offer: processors, load, and memory.
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

// New returns the machine whose /proc and /sys are below root, which is "" except in tests. The
// portable form has neither and knows only the processors.
func New(root string) *Machine {
	if root == "" && kernel.Portable {
		return &Machine{func(string) ([]byte, error) { return nil, errors.New("this system does not provide it") }}
	}
	return &Machine{func(name string) ([]byte, error) { return os.ReadFile(root + name) }}
}

// Processors returns the number of processors that this process can use: those of its affinity mask or,
// if that is less, the CPU quota of its control group, rounded up. See cgroups(7) and
// Documentation/admin-guide/cgroup-v2.rst, "cpu.max".
func (m *Machine) Processors() int { return m.processors(runtime.NumCPU()) }

func (m *Machine) processors(affinity int) int {
	n := float64(affinity)
	for g := range m.groups("cpu") {
		// In version 2 one file holds the quota and its period; in version 1 each has its own.
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

// Processes returns how many processes and threads, including its own, this process can have. That is
// the smallest number that the user's limit and the limits of its control group and the group's
// ancestors allow, or math.MaxInt64 without limits. See getrlimit(2), RLIMIT_NPROC, and cgroup-v2.rst,
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

// Load returns how many processes and threads of the whole machine, except the calling one, run, wait
// for a processor, or wait for a disk. See proc(5), /proc/stat.
func (m *Machine) Load() (float64, error) {
	text, err := m.read("/proc/stat")
	if err != nil {
		return 0, err
	}
	running, ok := number(text, "procs_running")
	blocked, ok2 := number(text, "procs_blocked")
	if !ok || !ok2 {
		return 0, errors.New("/proc/stat does not say how many processes run")
	}
	return float64(max(0, running-1) + blocked), nil
}

// Memory returns how many bytes are free or can be freed without swapping, and how many there are in
// total. These are the numbers of the machine or, if they are less, those of the control group or one
// of its ancestors. See proc(5), /proc/meminfo, and cgroup-v2.rst, "memory.max".
func (m *Machine) Memory() (free, total int64, err error) {
	text, err := m.read("/proc/meminfo")
	if err != nil {
		return 0, 0, err
	}
	free, ok := number(text, "MemAvailable:")
	total, ok2 := number(text, "MemTotal:")
	if !ok || !ok2 {
		return 0, 0, errors.New("/proc/meminfo does not say how much memory is available")
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

// number returns the number that follows name at the beginning of a line. ok is false if there is none.
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
	old     bool // version 1
}

// text returns the content of a file of the group, or "" if it cannot be read.
func (g group) text(name string) string {
	text, _ := g.machine.read(path.Join(g.dir, name))
	return string(text)
}

// number returns the number in a file of the group. ok is false if there is none.
func (g group) number(name string) (n int64, ok bool) {
	n, err := strconv.ParseInt(strings.TrimSpace(g.text(name)), 10, 64)
	return n, err == nil
}

// groups is an iter.Seq of the control groups that control a resource for this process: the process's
// own group and its ancestors up to the mount point.
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

// OOMKills counts the processes that the kernel has killed because memory was short. It is safe for
// concurrent use.
type OOMKills struct {
	machine *Machine

	mu        sync.Mutex
	count     int64 // kills at the last look; math.MaxInt64 before the first look
	unclaimed int64 // kills that Claim has not returned yet
	lastLook  time.Time
	timer     *time.Timer // for the first look
}

// The first look is delayed, because it costs more than the start of a short run may take. Kills
// that are not claimed soon were not of this run's processes.
const (
	firstLook   = 50 * time.Millisecond
	claimWithin = time.Second
)

// NewOOMKills returns an OOMKills that starts to count after 50 ms. The caller must close it.
func NewOOMKills(m *Machine) *OOMKills {
	o := &OOMKills{machine: m, count: math.MaxInt64}
	o.timer = time.AfterFunc(firstLook, func() { o.look(time.Now()) })
	return o
}

// Close cancels the first look.
func (o *OOMKills) Close() { o.timer.Stop() }

// Claim reports whether the kernel has killed a process that no earlier call has claimed, and claims
// it. If several processes are killed at once, each can be claimed within a second.
func (o *OOMKills) Claim() bool {
	o.look(time.Now())
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unclaimed == 0 {
		return false
	}
	o.unclaimed--
	return true
}

func (o *OOMKills) look(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	count, ok := o.machine.oomKills()
	if !ok {
		return
	}
	if now.Sub(o.lastLook) > claimWithin {
		o.unclaimed = 0
	}
	o.unclaimed += max(0, count-o.count)
	o.count, o.lastLook = count, now
}

// oomKills returns how many processes the kernel has killed because memory was short: processes of this
// process's control group or, if no group counts them, of the machine.
func (m *Machine) oomKills() (n int64, ok bool) {
	for g := range m.groups("memory") {
		if n, ok := number([]byte(g.text("memory.events")), "oom_kill"); ok {
			return n, true
		}
		break // the ancestors also count processes of other groups
	}
	text, _ := m.read("/proc/vmstat")
	return number(text, "oom_kill")
}
