package proc

import (
	"bytes"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

// peak is the most memory that this process has occupied, as far as it was
// looked at. It is safe for concurrent use.
type peak struct{ bytes atomic.Int64 }

// ofTask is the peak of a task whose usage says so, or 0 where that may be this
// process's own: the kernel carries the peak of the memory from which a program
// is started over to that program.
func (p *peak) ofTask(bytes int64) int64 {
	if bytes > p.bytes.Load() {
		p.bytes.Store(ownPeak())
	}
	if bytes <= p.bytes.Load() {
		return 0
	}
	return bytes
}

// ownPeak is VmHWM of /proc/self/status (proc_pid_status(5)). getrusage(2) would
// give the peak of this process's parent, where that is higher.
func ownPeak() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 1<<63 - 1
	}
	_, rest, _ := bytes.Cut(status, []byte("\nVmHWM:"))
	line, _, _ := bytes.Cut(rest, []byte(" kB"))
	kib, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 64)
	if err != nil {
		return 1<<63 - 1
	}
	return kib << 10
}

// schedStat is how long a process, without its children, was on a processor, and
// how long it waited for one.
type schedStat struct{ run, wait time.Duration }

// readSchedStat reads /proc/PID/schedstat, which is there until the process is
// reaped. The zero schedStat is nothing known.
func readSchedStat(pid int) (s schedStat) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/schedstat")
	if err != nil {
		return s
	}
	f := bytes.Fields(text)
	if len(f) < 2 {
		return s
	}
	run, err := strconv.ParseInt(string(f[0]), 10, 64)
	wait, err2 := strconv.ParseInt(string(f[1]), 10, 64)
	if err != nil || err2 != nil {
		return s
	}
	return schedStat{time.Duration(run), time.Duration(wait)}
}

// delay is about how long a task that was on processors for all of cpu waited for
// them: what its leader did, and its children in proportion.
func (s schedStat) delay(cpu time.Duration) time.Duration {
	if s.run <= 0 {
		return 0
	}
	return time.Duration(float64(s.wait) * max(1, float64(cpu)/float64(s.run)))
}
