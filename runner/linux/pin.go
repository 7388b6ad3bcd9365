//go:build amd64 || arm64

package linux

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Brief is how long a task may take to count as brief.
const Brief = 4 * time.Millisecond

// Pins keep the thread that starts and awaits a brief task on the processor where
// it is. Such a task and its thread take turns, and the kernel, which wakes
// either on any processor that is idle, spends a quarter of the time of the
// smallest tasks on waking processors. While some are idle all the time nothing
// is pinned: the kernel lets a task begin on one of these, and that would be far
// from its thread. At most one thread is pinned to a processor, tasks keep all
// processors that they may use, and a thread is free again when its attempt has
// ended or is not brief. It is safe for concurrent use.
type Pins struct {
	busy   atomic.Bool                                   // there have been as many attempts at once as processors
	wanted atomic.Bool                                   // so there have, and the last one was brief
	off    atomic.Bool                                   // there is no choice of processors, or not for us
	taken  [8 * unsafe.Sizeof(unix.CPUSet{})]atomic.Bool // by processor
}

// Pin is a thread's hold on a processor. A nil Pin is none, and its methods do
// nothing.
type Pin struct {
	of  *Pins
	cpu uint32
	all unix.CPUSet // what the thread may use without the pin, and the task with it
}

// Take pins the calling goroutine to its thread and that to its processor, until
// Release. It returns nil where that is not worth while, or another thread is
// pinned there.
func (p *Pins) Take() *Pin {
	if !p.wanted.Load() || p.off.Load() {
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
	if unix.SchedGetaffinity(0, &pin.all) != nil || pin.all.Count() < 2 {
		p.off.Store(true)
		return false
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&pin.cpu)), 0, 0); errno != 0 || int(pin.cpu) >= len(p.taken) {
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

// Release is the end of Take, on the same goroutine.
func (pin *Pin) Release() {
	if pin == nil {
		return
	}
	_ = unix.SchedSetaffinity(0, &pin.all)
	pin.of.taken[pin.cpu].Store(false)
	runtime.UnlockOSThread()
}

// Yield lets the task go on, which may wait for the same processor.
func (pin *Pin) Yield() {
	if pin != nil {
		_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	}
}

// Lasted says how long an attempt took, and how many there are.
func (p *Pins) Lasted(d time.Duration, live int64) {
	if live >= int64(runtime.NumCPU()) && !p.busy.Load() {
		p.busy.Store(true)
	}
	if brief := d < Brief && p.busy.Load(); brief != p.wanted.Load() {
		p.wanted.Store(brief)
	}
}
