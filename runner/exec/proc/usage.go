package proc

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
)

// inexact is by how many bytes per processor the kernel's count of a process's memory
// may be off: each processor counts apart and adds its part now and then.
const inexact = 1 << 20

// peak is the most memory that this process may have occupied. It is safe for
// concurrent use.
type peak struct{ bytes atomic.Int64 }

// ofTask returns the peak of a task whose rusage says so, or 0 if it may be this
// process's own: the kernel carries the peak of a process over to the program that
// it executes.
func (p *peak) ofTask(bytes int64) int64 {
	if bytes > p.bytes.Load() {
		p.bytes.Store(ownPeak() + inexact*int64(runtime.NumCPU()))
	}
	if bytes <= p.bytes.Load() {
		return 0
	}
	return bytes
}

// ownPeak returns VmHWM of /proc/self/status (proc_pid_status(5)), or more than any
// task can have if it cannot. getrusage(2) would return the peak of this process's
// parent if that is higher.
func ownPeak() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "\nVmHWM:")
	number, _, _ := strings.Cut(after, " kB")
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64) // package fmt would cost a run's first task 7 page faults
	if err != nil {
		return math.MaxInt64 / 2
	}
	return n << 10
}
