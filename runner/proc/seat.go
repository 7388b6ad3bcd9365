//go:build amd64 || arm64

package proc

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// brief is how long a task may take to count as brief.
const brief = 4 * time.Millisecond

// seats keep the thread that starts and awaits a brief task on the processor
// where it is. Such a task and its thread take turns, and the kernel, which
// wakes either on any processor that is idle, spends a quarter of the time of
// the smallest tasks on waking processors. While some are idle all the time
// there are no seats: the kernel lets a task begin on one of these, and that
// would be far from its thread. No processor is the seat of two attempts, tasks
// keep all the processors that they may use, and a thread is free again whenever
// its attempt has ended or is not brief. It is safe for concurrent use.
type seats struct {
	busy   atomic.Bool                                   // there have been as many attempts at once as processors
	wanted atomic.Bool                                   // so there have, and the last one was brief
	off    atomic.Bool                                   // there is no choice of processors, or not for us
	taken  [8 * unsafe.Sizeof(unix.CPUSet{})]atomic.Bool // by processor
}

// seat is a place on a processor, or nil.
type seat struct {
	of  *seats
	cpu uint32
	all unix.CPUSet // what the thread may use without the seat, and the task with it
}

// take keeps the calling goroutine on its thread and processor until leave, if
// that is worth while and nobody else has done so there.
func (s *seats) take() *seat {
	if !s.wanted.Load() || s.off.Load() {
		return nil
	}
	runtime.LockOSThread()
	at := &seat{of: s}
	if !at.sit() {
		runtime.UnlockOSThread()
		return nil
	}
	return at
}

func (at *seat) sit() bool {
	s := at.of
	if unix.SchedGetaffinity(0, &at.all) != nil || at.all.Count() < 2 {
		s.off.Store(true)
		return false
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&at.cpu)), 0, 0); errno != 0 || int(at.cpu) >= len(s.taken) {
		s.off.Store(true)
		return false
	}
	if !s.taken[at.cpu].CompareAndSwap(false, true) {
		return false
	}
	var one unix.CPUSet
	one.Set(int(at.cpu))
	if unix.SchedSetaffinity(0, &one) != nil {
		s.off.Store(true)
		s.taken[at.cpu].Store(false)
		return false
	}
	return true
}

// leave is the end of take.
func (at *seat) leave() {
	_ = unix.SchedSetaffinity(0, &at.all)
	at.of.taken[at.cpu].Store(false)
	runtime.UnlockOSThread()
}

// giveWay lets the task go on, which may stand on the same processor. Without a
// seat it does nothing.
func (at *seat) giveWay() {
	if at != nil {
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

// lasted says how long an attempt took, and how many there are.
func (s *seats) lasted(d time.Duration, live int64) {
	if live >= int64(runtime.NumCPU()) && !s.busy.Load() {
		s.busy.Store(true)
	}
	if is := d < brief && s.busy.Load(); is != s.wanted.Load() {
		s.wanted.Store(is)
	}
}
