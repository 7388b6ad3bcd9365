package coproc

import (
	"fmt"
	"io"
	"sync/atomic"
	"syscall"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// send writes as much as the worker takes.
func (w *worker) send() {
	for w.ready && !w.full && !w.shut && w.In >= 0 {
		if len(w.out) == 0 {
			if w.protocol == task.FilterProtocol {
				if !w.feed() {
					return
				}
				continue
			}
			if w.place(); len(w.out) == 0 {
				return
			}
		}
		n, err := syscall.Write(w.In, w.out)
		if err != nil {
			n = 0
			w.cannotWrite(err)
		}
		w.out = w.out[n:]
	}
}

// cannotWrite takes note of an error of a write to the worker.
func (w *worker) cannotWrite(err error) {
	switch err {
	case syscall.EAGAIN:
		w.full = true
	case syscall.EINTR:
	case io.ErrUnexpectedEOF:
		f := w.flights[w.placed]
		f.Outcome, f.Err = task.StartFailed, fmt.Errorf("the input has become shorter than block %d", f.record())
		w.finish(false)
	default: // it may still answer what it has read, or be about to end
		w.retired, w.shut = true, true
		w.over = min(w.over, w.run+grace)
	}
}

// start places the first byte of a flight.
func (w *worker) start(f *flight) {
	f.begin, f.since, f.Start = w.put+int64(len(w.out)), w.run, w.at
	w.count++
	if w.count == w.Records {
		w.retired = true
	}
	if w.begun() == 0 {
		w.flush()
	}
}

// place places what the worker gets next.
func (w *worker) place() {
	b := w.room[:0]
	for w.placed < len(w.flights) && len(b) < pipeSize {
		f := w.flights[w.placed]
		o := f.attempt().Origin()
		if w.part == 0 {
			if w.retired {
				break
			}
			w.out = b
			w.start(f)
			b = w.protocol.Begin(b, o.Task)
		}
		rest := f.Task.Stdin[w.part:]
		n := min(len(rest), pipeSize)
		b = append(b, rest[:n]...)
		if n < len(rest) {
			w.part += int64(n)
			break
		}
		b = w.protocol.End(b, o.Number, o.Units, f.Task.Makes)
		f.end = w.put + int64(len(b))
		w.part = 0
		w.placed++
	}
	w.out, w.room = b, b
	w.put += int64(len(b))
}

// bell wakes a loop that sleeps in poll(2). Ringing costs a system call only then.
type bell struct {
	state atomic.Int32
	fd    int // of a pipe, for reading; -1 before it is first needed, and if there is none to be had
	to    int // its other end
}

// States of a bell.
const (
	awake int32 = iota
	asleep
	rung
)

// ring wakes the loop, or keeps it from sleeping.
func (b *bell) ring() {
	if b.state.Swap(rung) == asleep && b.fd >= 0 {
		_, _ = syscall.Write(b.to, []byte{0})
	}
}

// sleep is called before poll(2). It returns false if the bell has rung since the last
// call of rang.
func (b *bell) sleep() bool {
	if b.fd < 0 {
		var ends [2]int
		if err := kernel.Pipe(&ends); err == nil {
			b.fd, b.to = ends[0], ends[1]
		}
	}
	return b.state.CompareAndSwap(awake, asleep)
}

// wake is called after poll(2), which saw revents of the bell.
func (b *bell) wake(revents int16) {
	b.state.CompareAndSwap(asleep, awake)
	if revents != 0 {
		var rings [8]byte
		_, _ = syscall.Read(b.fd, rings[:])
	}
}

// rang reports whether the bell has rung since the last call.
func (b *bell) rang() bool {
	return b.state.Load() == rung && b.state.CompareAndSwap(rung, awake)
}

func (b *bell) close() {
	if b.fd >= 0 {
		_, _ = syscall.Close(b.fd), syscall.Close(b.to)
	}
}
