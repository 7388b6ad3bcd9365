package coproc

import (
	"cmp"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/proc"
	"crew/runner/exec/spool"
)

const (
	pipeSize         = 64 << 10              // capacity of a pipe, and size of a read
	exitPollInterval = 50 * time.Millisecond // how often to check for the exit of a worker that has no exit descriptor
	closeGrace       = time.Second           // how long a worker may live after it has closed stdin or stdout
	blindSleep       = 10 * time.Millisecond // how long a loop sleeps if its bell has no descriptor
	maxJSON          = 256 << 20             // maximum size of a JSON object, except for its last part
	maxIdleBuffer    = 1 << 20               // maximum size of the buffer that an idle worker keeps
	floodReads       = 8                     // maximum number of successive reads from stderr
)

// worker is the process of a slot.
type worker struct {
	// configuration

	*loop
	*proc.Worker
	argv      []string
	protocol  task.Protocol
	delimiter byte // ends a record and an answer
	born      time.Duration

	// state

	ready         bool
	retired       bool          // it gets no more records
	dismissed     bool          // its stdin has been closed to make it end
	asked         bool          // it was asked to end, or killed
	wakeAt        time.Duration // when to check its deadlines again
	hangUpAt      time.Duration // when to end it because it has closed stdin or stdout; after its exit, when to stop reading
	neverReadWhy  string        // why it is ended before it has read a record; empty if it is not
	lastOutput    time.Duration // time of its last output
	answers       int           // number of its answers
	exited        bool          // it has exited, but not all of its output may have been read
	wroteAfterEnd bool          // it has written a line after its last answer

	// The worker gets the attempts in order. An attempt is encoded once all its bytes are in out or, if it
	// is a block, have been written.
	encoded      int        // number of encoded attempts, counted from the first one
	encodedPart  int64      // bytes of the next attempt that are encoded
	started      int        // number of attempts that have ever been encoded, at least in part
	encodedBytes int64      // number of bytes ever encoded
	blockInput   proc.Input // rest of the next attempt, if it is a block
	out          []byte     // encoded and not written
	outBuf       []byte     // memory for out
	pipeFull     bool       // the pipe to stdin is full
	stdinClosed  bool       // the worker has closed its end of the pipe

	pendingStderr []byte // stderr before the first record, or an incomplete line
	recentStderr  []byte // the end of stderr since the latest answer
	errBuf        []byte // buffer for reading stderr

	buf          []byte // buffer for reading stdout: buf[from:to] has not been handled yet
	from, to     int
	partial      spool.Stream // the beginning of an answer that does not fit into buf
	filterOutput *output      // the output of a filter, or nil

	quickTurns int         // number of successive turns with an immediate answer
	pin        *kernel.Pin // nil if it is not pinned
}

func newWorker(l *loop, p *proc.Worker) *worker {
	t := l.commandAttempt().Task
	w := &worker{
		loop: l, Worker: p, argv: t.ArgvOn(l.slot.ID, l.slot.Host, nil), protocol: t.Protocol, delimiter: '\n', born: l.now,
		ready: l.Ready == "", hangUpAt: never, lastOutput: l.now, buf: make([]byte, pipeSize),
	}
	if t.Protocol == task.NULProtocol {
		w.delimiter = 0
	}
	return w
}

// runOnce does all work that can be done now. Without work, it waits and handles the next events.
func (w *worker) runOnce() {
	w.send()
	wait := w.checkDeadlines() - w.now
	if len(w.ended) > 0 || w.yieldAndRead() {
		return
	}
	set := [...]unix.PollFd{ // poll(2) ignores negative descriptors
		{}, // the bell
		{Fd: int32(w.Out), Events: unix.POLLIN},
		{Fd: int32(w.Err), Events: unix.POLLIN},
		{Fd: int32(w.In), Events: unix.POLLHUP}, // darwin reports it only on request
		{Fd: -1, Events: unix.POLLIN},
	}
	switch {
	case w.stdinClosed:
		set[3].Fd = -1
	case w.pipeFull:
		set[3].Events |= unix.POLLOUT
	}
	if !w.exited {
		if set[4].Fd = int32(w.Exit()); set[4].Fd < 0 {
			wait = min(wait, exitPollInterval)
		}
	}
	before := w.now
	w.sleep(set[:], wait)
	w.now, w.wall = w.Clock.Now()
	w.updatePin(w.now - before)
	switch {
	case set[3].Revents == 0:
	case w.pipeFull: // the next write shows whether there is room or an error
		w.pipeFull = false
	case w.owesAnswer(w.bytesRead()):
		w.retired, w.stdinClosed = true, true
	default:
		w.writeFailed(syscall.EPIPE)
	}
	if set[1].Revents != 0 {
		w.lastOutput = w.now
		if n := w.readStdout(); n > 0 {
			w.takeStdout(n)
		}
	}
	if set[2].Revents != 0 {
		w.readStderr()
	}
	if !w.exited && (set[4].Revents != 0 || set[4].Fd < 0 && w.Exited()) {
		w.exited, w.stdinClosed, w.hangUpAt = true, true, w.now+closeGrace
	}
	if w.exited && (w.Out < 0 && w.Err < 0 || w.now >= w.hangUpAt) {
		w.reap()
	}
}

// updatePin keeps the loop's thread and the worker on one processor while answers come at
// once, and only then. Otherwise each wakes the other on an idle processor, which takes
// longer than the answer. With the pin, cat answers twice as many records.
func (w *worker) updatePin(waited time.Duration) {
	const atOnce, late, often = 100 * time.Microsecond, time.Millisecond, 64
	switch {
	case waited > late:
		w.quickTurns = 0
		w.pin.Release()
		w.pin = nil
	case waited > atOnce:
	case w.quickTurns < often:
		w.quickTurns++
	case w.pin == nil:
		w.quickTurns = 0
		if w.pin = w.pins.Take(true); w.pin != nil {
			w.pin.AddProcess(w.PID)
		}
	}
}

// sleep polls set until an event occurs or wait is over. It sets the first element of set to the
// bell.
func (l *loop) sleep(set []unix.PollFd, wait time.Duration) {
	if !l.bell.sleep() {
		wait = 0
	} else if l.bell.fd < 0 {
		wait = min(wait, blindSleep)
	}
	set[0] = unix.PollFd{Fd: int32(l.bell.fd), Events: unix.POLLIN}
	_, _ = l.Poll(set, wait) // after an error there are no events
	l.bell.wake(set[0].Revents)
}

// reached reports whether a time has come. If not, the loop will check again at that time.
func (w *worker) reached(at time.Duration) bool {
	if w.now < at {
		w.wakeAt = min(w.wakeAt, at)
		return false
	}
	return true
}

// checkDeadlines handles all deadlines that have passed, and returns when to call it again.
func (w *worker) checkDeadlines() time.Duration {
	if w.exited {
		return w.hangUpAt
	}
	w.wakeAt = never
	if w.reached(w.hangUpAt) {
		w.hangUpAt = never
		w.endHungUp()
	}
	if !w.asked {
		w.checkTimeouts()
		w.giveHint()
		w.retireIfDue()
	}
	return w.wakeAt
}

// retireIfDue closes the worker's stdin once the worker has all records that it is to get.
func (w *worker) retireIfDue() {
	if age := w.Age; age > 0 && w.started > 0 && w.reached(w.born+age) {
		w.retired = true
	}
	if w.Workers.short.Load() > 0 && len(w.attempts) == 0 {
		w.retired = true // other loops need its resources
	}
	last := w.expects == task.ExpectNone || w.expects == task.ExpectRetries && w.protocol == task.FilterProtocol
	refuses := w.stdinClosed && w.bytesRead() == 0         // it ends by itself, and is not dismissed
	idle := w.begun() == w.openBlocks() && len(w.out) == 0 // it owes no answer that it can give while stdin is open
	if w.In >= 0 && !refuses && idle && (w.retired || last && len(w.attempts) == w.openBlocks()) {
		w.closeStdin()
		for _, f := range w.attempts[:w.openBlocks()] {
			f.since = w.now
		}
		w.checkTimeouts() // the answers are owed from now on
	}
}

// closeStdin closes the worker's stdin to make it end.
func (w *worker) closeStdin() {
	w.retired, w.dismissed = true, true
	kernel.Close(&w.In)
}

// begun returns the number of attempts that have been encoded, at least in part.
func (w *worker) begun() int {
	return w.encoded + int(min(w.encodedPart, 1))
}

// checkTimeouts ends the worker if it has taken too long for a record, or has been silent for too
// long.
func (w *worker) checkTimeouts() {
	owed := w.attempts[:w.begun()]
	switch {
	case w.protocol == task.FilterProtocol && !w.dismissed:
		owed = owed[w.encoded:]
	case w.protocol != task.JSONProtocol:
		owed = owed[:min(len(owed), 1)]
	}
	for _, f := range owed {
		limit, idle := cmp.Or(f.Task.Timeout, w.Limit.Timeout), w.Limit.Idle
		switch {
		case limit > 0 && w.reached(f.since+limit):
		case idle > 0 && w.reached(max(f.since, w.lastOutput)+idle) && !kernel.Readable(w.Out, w.Err):
			f.Err = task.Silent(idle)
		default:
			continue
		}
		f.Outcome = task.Timeout
		w.endWorker(task.Cancelled, false)
	}
}

// bytesRead returns how many bytes the worker can have read from stdin.
func (w *worker) bytesRead() int64 {
	read := w.encodedBytes - int64(len(w.out))
	if w.In >= 0 {
		read -= int64(w.Unread())
	}
	return read
}
