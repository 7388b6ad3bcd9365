//go:build (amd64 || arm64) && !crew_portable

package kernel

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Brief is the longest duration of a brief task.
const Brief = 4 * time.Millisecond

const (
	noticed   = 200 * time.Microsecond // how long a thread waits in a system call before the Go runtime notices
	manyWaits = 64                     // this many noticed waits in a row raise GOMAXPROCS
)

// Pins keeps the thread that starts a brief task and waits for it on its current processor. The task
// and the thread take turns. Without a pin, the kernel wakes each of them on any idle processor, and
// the smallest tasks spend a quarter of their time on waking processors. Nothing is pinned while some
// processors are idle: the kernel lets a task begin on an idle processor, far from its thread.
//
// At most one thread is pinned to a processor. Tasks keep all the processors they may use. A thread is
// unpinned when its attempt has ended or is no longer brief. Pins is safe for concurrent use.
type Pins struct {
	wanted atomic.Bool                                   // attempts are brief, and as many run at once as there are processors
	waits  atomic.Int32                                  // attempts in a row whose threads waited long
	off    atomic.Bool                                   // affinity cannot be changed, or there is only one processor
	taken  [8 * unsafe.Sizeof(unix.CPUSet{})]atomic.Bool // indexed by processor
}

// Pin ties a thread to a processor. The methods of a nil *Pin do nothing.
type Pin struct {
	of   *Pins
	cpu  uint32
	all  unix.CPUSet // affinity of the task, and of the thread without the pin
	peer int         // a process that is pinned to the same processor; 0 for none
	free unix.CPUSet // affinity of peer without the pin
}

// Take locks the calling goroutine to its thread, and the thread to its current processor, until
// Release. It returns nil if another thread is pinned to that processor, or threads cannot be pinned.
// Unless certain is true, it also returns nil if the latest attempts suggest that a pin is not worthwhile.
func (p *Pins) Take(certain bool) *Pin {
	if p.off.Load() || !certain && !p.wanted.Load() {
		return nil
	}
	runtime.LockOSThread()
	pin := &Pin{of: p}
	if !pin.take() {
		runtime.UnlockOSThread()
		return nil
	}
	return pin
}

func (pin *Pin) take() bool {
	p := pin.of
	_, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&pin.cpu)), 0, 0)
	err := unix.SchedGetaffinity(0, &pin.all)
	if errno != 0 || err != nil || pin.all.Count() < 2 || int(pin.cpu) >= len(p.taken) {
		p.off.Store(true)
		return false
	}
	if !p.taken[pin.cpu].CompareAndSwap(false, true) {
		return false
	}
	var one unix.CPUSet
	one.Set(int(pin.cpu))
	if unix.SchedSetaffinity(0, &one) != nil {
		p.off.Store(true)
		p.taken[pin.cpu].Store(false)
		return false
	}
	return true
}

// AddProcess pins the main thread of a process to the same processor, until Release, which must be
// called before the process is reaped.
func (pin *Pin) AddProcess(pid int) {
	var one unix.CPUSet
	one.Set(int(pin.cpu))
	if unix.SchedGetaffinity(pid, &pin.free) == nil && pin.free.IsSet(int(pin.cpu)) && unix.SchedSetaffinity(pid, &one) == nil {
		pin.peer = pid
	}
}

// Release undoes Take and AddProcess. It must be called by the goroutine that called Take.
func (pin *Pin) Release() {
	if pin == nil {
		return
	}
	_ = unix.SchedSetaffinity(0, &pin.all)
	if pin.peer != 0 {
		_ = unix.SchedSetaffinity(pin.peer, &pin.free)
	}
	pin.of.taken[pin.cpu].Store(false)
	runtime.UnlockOSThread()
}

// Yield lets the worker process run, which may be waiting for the same processor. Without it, cat takes
// 1.15 times as long.
func (pin *Pin) Yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// Observe records how long an attempt took, and how many attempts were live when it ended.
func (p *Pins) Observe(d time.Duration, live int64) {
	if wanted := p.wanted.Load(); wanted != (d < Brief) && (wanted || live >= int64(runtime.NumCPU())) {
		p.wanted.Store(!wanted)
	}
	if p.waits.Load() == manyWaits {
		return
	}
	// Raise GOMAXPROCS by one, once, if that saves time. A thread that waits for its
	// task counts as running until the Go runtime notices, takes its processor away and
	// wakes another thread, which happens at every task. Raising it would cost time with
	// tasks so short that the runtime does not notice, or with more tasks at once. Without
	// it /bin/true takes 1.08 times as long.
	procs := runtime.GOMAXPROCS(0)
	if d < noticed || live > int64(procs) {
		p.waits.Store(0)
	} else if p.waits.Add(1) == manyWaits {
		runtime.GOMAXPROCS(procs + 1)
	}
}
