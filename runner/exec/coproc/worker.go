package coproc

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/exec/proc"
	"crew/runner/exec/spool"
)

const (
	pipeSize   = 64 << 10              // the capacity of a pipe, and how much is read at once
	soon       = 50 * time.Millisecond // how often the exit of a worker is looked for that cannot be polled
	grace      = time.Second           // how long a worker may live on after it has closed stdin or stdout
	blindSleep = 10 * time.Millisecond // how long a loop sleeps whose bell has no descriptor
	mostJSON   = 256 << 20             // the length of the longest JSON object, without what comes last
	mostIdle   = 1 << 20               // the largest buffer that a worker keeps
	floodReads = 8                     // how often stderr is read at once
)

// worker is the process of a slot.
type worker struct {
	// configuration

	*loop
	*proc.Worker
	argv     []string
	protocol task.Protocol
	mark     byte // ends a record and of an answer
	born     time.Duration

	// state

	ready     bool
	retired   bool          // it gets no more records
	dismissed bool          // its stdin is closed, so that it ends
	ladder    task.EndStage // how the loop ends it
	wake      time.Duration // when to look again
	killAt    time.Duration // when it is killed if it lives then; never before it is asked to end
	over      time.Duration // when it is asked to end, since it has closed stdin or stdout
	unread    string        // why it is ended before it has read a record; empty if it is not
	heard     time.Duration // when something came last
	answers   int
	exited    bool // its streams are read to their ends, or until over
	spoke     bool // it has written a line after its last answer

	// The worker gets the flights in order. A flight is placed once its bytes are in out.
	placed int        // flights that are placed, from the first waiting one on
	part   int64      // bytes of the next one that are placed
	count  int        // flights placed in all
	put    int64      // bytes placed in all
	rest   proc.Input // of the next one, if that is a block
	out    []byte     // bytes that are placed and not written
	room   []byte     // to place bytes in
	full   bool       // the pipe takes no more
	shut   bool       // the worker has closed its end of the pipe

	pending []byte // stderr before the first record, or a line of it that is not complete
	said    []byte // the end of stderr since the latest answer
	errs    []byte // to read stderr into

	buf      []byte // what has come on stdout: buf[from:to] is not looked at yet
	from, to int
	partial  spool.Stream // the beginning of an answer that does not fit in buf
	own      *output      // the output of a filter; nil if there is none

	quick int         // turns in a row with an answer at once
	pin   *kernel.Pin // nil without one
}

func newWorker(l *loop, p *proc.Worker) *worker {
	t := l.model().Task
	w := &worker{
		loop: l, Worker: p, argv: t.ArgvOn(l.slot.ID, l.slot.Host, nil), protocol: t.Protocol, mark: '\n', born: l.run,
		ready: l.Ready == nil, killAt: never, over: never, heard: l.run, buf: make([]byte, pipeSize),
	}
	if t.Protocol == task.NULProtocol {
		w.mark = 0
	}
	return w
}

// turn does what can be done, or waits for something to do.
func (w *worker) turn() {
	w.send()
	wait := w.due() - w.run
	if len(w.ended) > 0 || w.peek() {
		return
	}
	set := [...]unix.PollFd{ // poll(2) ignores negative descriptors
		{}, // the bell
		{Fd: int32(w.Out), Events: unix.POLLIN},
		{Fd: int32(w.Err), Events: unix.POLLIN},
		{Fd: int32(w.In), Events: unix.POLLHUP}, // which darwin has to be asked for
		{Fd: -1, Events: unix.POLLIN},
	}
	switch {
	case w.shut:
		set[3].Fd = -1
	case w.full:
		set[3].Events |= unix.POLLOUT
	}
	if !w.exited {
		if set[4].Fd = int32(w.Exit()); set[4].Fd < 0 {
			wait = min(wait, soon)
		}
	}
	before := w.run
	w.sleep(set[:], wait)
	w.run, w.at = w.Clock.Now()
	w.pace(w.run - before)
	switch {
	case set[3].Revents == 0:
	case w.full: // the next write tells what it is
		w.full = false
	case w.owes(w.read()):
		w.retired, w.shut = true, true
	default:
		w.cannotWrite(syscall.EPIPE)
	}
	if set[1].Revents != 0 {
		w.heard = w.run
		if n := w.readOut(); n > 0 {
			w.came(n)
		}
	}
	if set[2].Revents != 0 {
		w.readErrs()
	}
	if !w.exited && (set[4].Revents != 0 || set[4].Fd < 0 && w.Exited()) {
		w.exited, w.shut, w.over, w.killAt = true, true, w.run+grace, never
	}
	if w.exited && (w.Out < 0 && w.Err < 0 || w.run >= w.over) {
		w.reap()
	}
}

// pace keeps the loop's thread and the worker on one processor while answers come at
// once, and only then. Otherwise each wakes the other on an idle processor, which takes
// longer than the answer: cat answers twice as many records.
func (w *worker) pace(waited time.Duration) {
	const atOnce, late, often = 100 * time.Microsecond, time.Millisecond, 64
	switch {
	case waited > late:
		w.quick = 0
		w.unpin()
	case waited > atOnce:
	case w.quick < often:
		w.quick++
	case w.pin == nil:
		w.quick = 0
		if w.pin = w.pins.Take(true); w.pin != nil {
			w.pin.AddProcess(w.PID)
		}
	}
}

func (w *worker) unpin() {
	w.pin.Release()
	w.pin = nil
}

// sleep polls set, of which the first element becomes the bell's, until something happens
// or wait is over.
func (l *loop) sleep(set []unix.PollFd, wait time.Duration) {
	if !l.bell.sleep() {
		wait = 0
	} else if l.bell.fd < 0 {
		wait = min(wait, blindSleep)
	}
	set[0] = unix.PollFd{Fd: int32(l.bell.fd), Events: unix.POLLIN}
	_, _ = l.Poll(set, wait) // nothing has happened after an error
	l.bell.wake(set[0].Revents)
}

// reached reports whether a time has come. If not, the loop looks again then.
func (w *worker) reached(at time.Duration) bool {
	if w.run < at {
		w.wake = min(w.wake, at)
		return false
	}
	return true
}

// due does what its time has come for, and returns when to look again.
func (w *worker) due() time.Duration {
	if w.exited {
		return w.over
	}
	w.wake = never
	if w.reached(w.killAt) {
		w.finish(true)
	}
	if w.reached(w.over) {
		w.over = never
		w.hangUp()
	}
	if w.ladder == task.NotAsked {
		w.expire()
		w.hint()
		w.replace()
	}
	return min(w.wake, w.killAt)
}

// replace closes stdin once the worker has all records that it is to get.
func (w *worker) replace() {
	if age := w.Age; age > 0 && w.count > 0 && w.reached(w.born+age) {
		w.retired = true
	}
	if w.Workers.short.Load() > 0 && len(w.flights) == 0 {
		w.retired = true // others need what it holds
	}
	last := w.left == task.ExpectNone || w.left == task.ExpectRetries && w.protocol == task.FilterProtocol
	refuses := w.shut && w.read() == 0 // its end is its own doing
	if w.In >= 0 && !refuses && w.idle() && (w.retired || last && len(w.flights) == w.held()) {
		w.dismiss()
		for _, f := range w.flights[:w.held()] {
			f.since = w.run
		}
		w.expire() // these are owed from now on
	}
}

// dismiss closes the worker's stdin, so that it ends.
func (w *worker) dismiss() {
	w.retired, w.dismissed = true, true
	kernel.Close(&w.In)
}

// begun returns how many flights the worker has got at least a part of.
func (w *worker) begun() int {
	return w.placed + int(min(w.part, 1))
}

// idle reports whether the worker owes nothing that it can give while its stdin is open.
func (w *worker) idle() bool { return w.begun() == w.held() && len(w.out) == 0 }

// expire ends the worker if it has taken too long for a record, or been silent for too
// long.
func (w *worker) expire() {
	owed := w.flights[:w.begun()]
	switch {
	case w.protocol == task.FilterProtocol && !w.dismissed:
		owed = owed[w.placed:]
	case w.protocol != task.JSONProtocol:
		owed = owed[:min(len(owed), 1)]
	}
	for _, f := range owed {
		limit, idle := cmp.Or(f.Task.Timeout, w.Timeout), w.Idle
		switch {
		case limit > 0 && w.reached(f.since+limit):
		case idle > 0 && w.reached(max(f.since, w.heard)+idle) && !kernel.Readable(w.Out, w.Err):
			f.Err = task.Silent(idle)
		default:
			continue
		}
		f.Outcome = task.Timeout
		w.finish(false)
	}
}

// finish asks the worker to end, and has it killed if it does not, or at once. The loop
// goes on when it has ended.
func (w *worker) finish(kill bool) {
	grace := w.KillAfter
	if len(w.flights) > 0 {
		grace = cmp.Or(w.flights[0].Task.KillAfter, grace)
	}
	wait, ok := w.ladder.Step(kill, grace)
	if !ok {
		return
	}
	w.retired, w.killAt = true, w.run+wait
	kernel.Close(&w.In)
	if kill {
		w.Signal(syscall.SIGKILL)
	} else {
		w.Signal(syscall.SIGTERM)
	}
}

// hangUp ends a worker that has closed a stream and lives on.
func (w *worker) hangUp() {
	stream := "stdin"
	if w.Out < 0 {
		stream = "stdout"
	}
	w.neverRead("it closed " + stream)
	if w.ladder == task.NotAsked && w.owes(w.read()) {
		w.bad("none before it closed " + stream)
	}
	w.finish(false)
}

// neverRead takes note of why the worker is ended if it has not read a record.
func (w *worker) neverRead(why string) {
	if w.read() == 0 {
		w.unread, w.put, w.out = why, 0, nil // none will be read
	}
}

// readErrs reads at least as much of stderr as its pipe holds now: whatever was written
// before the answers that have been read. All that comes of a flood might never end.
func (w *worker) readErrs() {
	for i := 0; i < floodReads && w.Err >= 0; i++ {
		if w.errs == nil {
			w.errs = make([]byte, pipeSize/4)
		}
		n := kernel.Read(&w.Err, w.errs)
		if n == 0 {
			return
		}
		w.heard = w.run
		w.heardErr(w.errs[:n])
	}
}

// heardErr finds the record, or none, that a piece of stderr belongs to.
func (w *worker) heardErr(p []byte) {
	w.said = spool.LastOf(w.said, p)
	switch {
	case w.protocol == task.FilterProtocol:
		w.filtered(p, true)
	case w.begun() > 0:
		w.giveStderr(p)
	case w.count == 0 && len(w.flights) > 0 && w.Plan.Show != task.ShowLines:
		w.addStderr(w.flights[0], p) // that waits for the worker to be ready
	case w.count == 0 && len(w.pending) < mostMemory && w.left != task.ExpectNone:
		w.pending = append(w.pending, p...)
	default:
		_, _ = w.strays().Write(p)
	}
}

// giveStderr gives stderr to the oldest record. As the end of a line may come after the answer
// and another record is then the oldest, whole lines go there as long as there is another.
func (w *worker) giveStderr(p []byte) {
	whole := len(p)
	if w.begun() > 1 && len(w.pending) < mostMemory {
		whole = bytes.LastIndexByte(p, '\n') + 1
	}
	if whole > 0 {
		w.flush()
		w.addStderr(w.flights[0], p[:whole])
	}
	w.pending = append(w.pending, p[whole:]...)
}

// flush gives what is held back of stderr to the oldest record.
func (w *worker) flush() {
	if len(w.pending) > 0 {
		w.addStderr(w.flights[0], w.pending)
		w.pending = nil
	}
}

// reap reaps a worker that has exited, and ends its flights.
func (w *worker) reap() {
	if w.begun() > 0 {
		w.flush()
	}
	read := w.read()
	w.unpin()
	ws := w.Reap()
	l, how := w.loop, cmp.Or(w.unread, exitText(ws))
	worked := w.answers > 0 || read > 0 && !ws.Signaled()
	switch {
	case w.ladder != task.NotAsked && w.unread == "":
		worked = true
	case !w.dismissed:
		l.died(how, w.said, worked, read > 0)
		if w.answers > 0 && w.begun() == 0 && ws != 0 {
			l.tell("ended while it had no record: " + how)
		}
	case w.begun() == 0 && ws != 0:
		l.tell("ended after its last answer: " + how)
	}
	took := w.flights
	l.flights = nil
	for i, f := range took {
		begun := i < w.begun() && f.begin < read
		known, alone := f.Outcome != 0, w.ladder == task.NotAsked
		filter := w.protocol == task.FilterProtocol && i == 0 && read > 0 && (known || alone)
		if filter {
			f.said, w.own = w.own, nil
		}
		switch {
		case filter || known || begun && alone && (i == 0 || w.protocol == task.JSONProtocol):
			w.settle(f, ws, how, begun)
		default:
			if s := f.said; s != nil && s.err.To == nil && s.err.Kept != nil && read > 0 { // died has told of it otherwise
				_, _ = s.err.Kept.WriteTo(w.strays())
			}
			once := f.Task.Makes != nil || f.Task.Origin != nil && f.Task.Origin.Once
			fresh := !once || !begun // else it needs other temporary names
			if fresh && l.left != task.ExpectNone && (worked || w.dismissed) {
				l.hide(f.said)
				f.said.discard()
				l.push(f.attempt()) // for the next worker
			} else {
				w.report(f, task.Lost, nil).Unbegun = true
			}
		}
	}
	w.drop()
	w.own.discard()
	if w.stray != nil {
		_ = w.stray.Close() // the sink itself reports an error to the run
		l.stray = nil
	}
	l.w = nil
}

// read returns how many bytes the worker can have read.
func (w *worker) read() int64 {
	read := w.put - int64(len(w.out))
	if w.In >= 0 {
		read -= int64(w.Unread())
	}
	return read
}

// settle ends a record that the worker had when it ended, by its outcome or else by the worker's.
func (w *worker) settle(f *flight, ws syscall.WaitStatus, how string, begun bool) {
	o, code, sig := proc.Classify(f.Outcome, ws)
	err := f.Err
	switch filter := w.protocol == task.FilterProtocol; {
	case o == task.StartFailed:
		code, sig = 126, 0
	case o == task.BadAnswer:
		code, sig = 0, 0
	case f.Outcome != 0:
		code = 0
	case filter && o == task.OK && !begun && !w.dismissed:
		o, err = task.BadAnswer, fmt.Errorf("the filter ended before it read block %d: %s", f.record(), how)
	case filter:
	case o == task.OK:
		came := "none before it ended"
		if w.partial.Kept != nil || w.to > 0 {
			came = "half of one before it ended: " + w.excerpt(w.buf[:w.to])
		}
		o, err = task.BadAnswer, w.unexpected(f.Task.ID, came)
	default:
		err = fmt.Errorf("the worker ended before it answered: %s", how)
	}
	w.report(f, o, err)
	f.Code, f.Signal = code, sig
}

// exitText says how a worker ended.
func exitText(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "killed by " + unix.SignalName(ws.Signal())
	}
	return "exit status " + strconv.Itoa(ws.ExitStatus())
}
