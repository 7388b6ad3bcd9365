package proc

import (
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
)

// rssError is the error, in bytes per processor, of the kernel's count of a process's memory: each
// processor counts separately and adds its part now and then.
const rssError = 1 << 20

// peak is an upper bound of the memory that this process has occupied. It is safe for
// concurrent use.
type peak struct{ bytes atomic.Int64 }

// ofTask returns the peak of a task whose rusage reports bytes, or 0 if this may be the peak of
// this process: the kernel carries the peak of a process over to the program that it
// executes.
func (p *peak) ofTask(bytes int64) int64 {
	if bytes > p.bytes.Load() {
		p.bytes.Store(ownPeak() + rssError*int64(runtime.NumCPU()))
	}
	if bytes <= p.bytes.Load() {
		return 0
	}
	return bytes
}

// ownPeak returns VmHWM of /proc/self/status (proc_pid_status(5)). If it cannot read it, it returns
// more than any task can have. getrusage(2) would return the peak of this process's parent if
// that is higher.
func ownPeak() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	_, after, _ := strings.Cut(string(status), "\nVmHWM:")
	number, _, _ := strings.Cut(after, " kB")
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64) // package fmt would cost the first task of a run 7 page faults
	if err != nil {
		return math.MaxInt64 / 2
	}
	return n << 10
}
