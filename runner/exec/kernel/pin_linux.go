//go:build (amd64 || arm64) && !crew_portable

package kernel

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Brief is the longest time of a task that counts as brief.
const Brief = 4 * time.Millisecond

const (
	noticed   = 200 * time.Microsecond // how long a thread waits before the Go runtime notices
	manyWaits = 64                     // noticed waits in a row after which GOMAXPROCS is raised

	crowded    = time.Millisecond // how long Yield takes if it is not the task alone that runs
	crowdedFor = 16               // for how many times as long Yield then does nothing
)

// epoch is the start of the time that Pins count.
var epoch = time.Now()

// Pins keeps the thread that starts a brief task and waits for it on its current
// processor. The task and the thread take turns. Without a pin the kernel wakes
// either on any idle processor, and the smallest tasks spend a quarter of their
// time on waking processors. Nothing is pinned while some processors stay idle:
// the kernel lets a task begin on one of those, far from its thread.
//
// At most one thread is pinned to a processor. Tasks keep all the processors they
// may use. A thread is unpinned when its attempt has ended or is no longer brief.
// Pins is safe for concurrent use.
type Pins struct {
	wanted atomic.Bool                                   // attempts are brief, and there are as many at once as processors
	waits  atomic.Int32                                  // attempts in a row whose threads waited long
	until  atomic.Int64                                  // when Yield works again, in nanoseconds since epoch
	off    atomic.Bool                                   // affinity cannot be changed, or there is but one processor
	taken  [8 * unsafe.Sizeof(unix.CPUSet{})]atomic.Bool // by processor
}

// Pin ties a thread to a processor. A nil *Pin stands for none, and its methods
// do nothing.
type Pin struct {
	of   *Pins
	cpu  uint32
	all  unix.CPUSet // the thread's affinity without the pin, and the task's
	peer int         // a process that is kept there, too; 0 for none
	free unix.CPUSet // its affinity without that
}

// Take locks the calling goroutine to its thread, and the thread to its current
// processor, until Release. It returns nil if it is not certain that this is worthwhile and the
// latest attempts do not say so, or if another thread is pinned to that processor.
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

// Join keeps the main thread of a process on the pin's processor, too, until Release,
// which must come before the process is reaped.
func (pin *Pin) Join(pid int) {
	var one unix.CPUSet
	one.Set(int(pin.cpu))
	if unix.SchedGetaffinity(pid, &pin.free) == nil && pin.free.IsSet(int(pin.cpu)) && unix.SchedSetaffinity(pid, &one) == nil {
		pin.peer = pid
	}
}

// Release undoes Take and Join. The goroutine that called Take must call it.
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

// Yield lets the worker run, which may be waiting for the same processor. It brings a tenth
// for cat. But it lets everything else run, too, that waits for that processor, so it does
// nothing for a while after that took long. Beside 20 busy loops on two processors, cat
// otherwise takes 1.6 times as long.
func (pin *Pin) Yield() {
	if pin == nil {
		return
	}
	until := &pin.of.until
	start := time.Since(epoch)
	if int64(start) < until.Load() {
		return
	}
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	if end := time.Since(epoch); end-start > crowded {
		until.Store(int64(end + crowdedFor*(end-start)))
	}
}

// Lasted reports to p how long an attempt took, and how many were live then.
func (p *Pins) Lasted(d time.Duration, live int64) {
	if wanted := p.wanted.Load(); wanted != (d < Brief) && (wanted || live >= int64(runtime.NumCPU())) {
		p.wanted.Store(!wanted)
	}
	if p.waits.Load() == manyWaits {
		return
	}
	// GOMAXPROCS is raised by one, once, if that saves time: if each thread that
	// waits for its task counts as running, and the Go runtime takes that from it and
	// wakes another thread, at every task. It would cost time with tasks so short that
	// the runtime does not notice, or with more tasks at once. Without it /bin/true takes
	// 1.08 times as long.
	procs := runtime.GOMAXPROCS(0)
	if d < noticed || live > int64(procs) {
		p.waits.Store(0)
	} else if p.waits.Add(1) == manyWaits {
		runtime.GOMAXPROCS(procs + 1)
	}
}
