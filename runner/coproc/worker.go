package coproc

import (
	"bytes"
	"cmp"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/proc"
	"crew/runner/task"
)

const (
	pipeSize = 64 << 10              // the capacity of a pipe, and how much is read at once
	soon     = 50 * time.Millisecond // how long a worker is silent before its exit is looked for
	grace    = time.Second           // how long a worker may live on after it has closed stdin or stdout
	deafness = 10 * time.Millisecond // how often a lane without a bell looks for orders
	lastSaid = 4 << 10               // how much stderr of a worker is remembered
)

// worker is the process of a lane.
type worker struct {
	// configuration

	*lane
	p        *proc.Worker
	argv     []string
	protocol task.Protocol
	mark     byte // ends a record and of an answer
	born     time.Duration

	// state

	ready     bool
	retired   bool          // it gets no more records
	dismissed bool          // its stdin is closed, so that it ends
	finished  bool          // the lane has asked it to end; if it lives at killAt, it is killed
	killAt    time.Duration // never once it has been killed
	over      time.Duration // when it is asked to end, since it has closed stdin or stdout
	silent    bool          // nothing has come for a while, so its exit is looked for
	answers   int

	placed  int    // flights that the worker gets, from the first waiting one on
	part    int    // bytes of the next one that are placed
	count   int    // records placed in all
	placing int64  // bytes placed in all
	out     []byte // what is placed and not written
	full    bool   // the pipe takes no more
	pending []byte // stderr before the first record
	said    []byte // the end of stderr

	buf      []byte // what has come on stdout: buf[from:to] is not looked at yet
	from, to int
	partial  capture // the beginning of an answer that does not fit in buf
}

func newWorker(l *lane, p *proc.Worker) *worker {
	t := l.model().Task
	w := &worker{
		lane: l, p: p, argv: t.ArgvOn(l.slot.ID, l.slot.Host), protocol: t.Protocol, mark: '\n', born: l.run,
		ready: l.cfg.Life.Ready == nil, killAt: never, over: never, buf: make([]byte, pipeSize),
	}
	if t.Protocol == task.NULProtocol {
		w.mark = 0
	}
	return w
}

// turn does what can be done, or waits for something to do.
func (w *worker) turn() {
	wait := w.due() - w.run
	if len(w.ended) > 0 {
		return
	}
	w.send()
	set := [...]unix.PollFd{ // poll(2) ignores negative descriptors
		{Fd: int32(w.p.Out), Events: unix.POLLIN},
		{Fd: int32(w.p.Err), Events: unix.POLLIN},
		{},
		{Fd: -1, Events: unix.POLLOUT},
		{Fd: -1, Events: unix.POLLIN},
	}
	if w.full {
		set[3].Fd = int32(w.p.In)
	}
	if !w.silent && w.p.Out >= 0 {
		wait = min(wait, soon)
	} else if set[4].Fd = int32(w.p.Exit()); set[4].Fd < 0 {
		wait = min(wait, soon)
	}
	n := w.sleep(set[:], wait)
	w.run, w.at = w.clock.now()
	w.silent = n == 0 && wait > 0
	if set[3].Revents != 0 {
		w.full = false
	}
	if set[1].Revents != 0 {
		w.readErr()
	}
	if set[0].Revents != 0 {
		w.readOut()
	}
	if set[4].Revents != 0 || set[4].Fd < 0 && (w.silent || w.p.Out < 0) && w.p.Exited() {
		w.bury()
	}
}

// sleep polls set, in which the third element is the bell's, until something happens or
// wait is over.
func (l *lane) sleep(set []unix.PollFd, wait time.Duration) (n int) {
	ok, deaf := l.bell.sleep()
	if !ok {
		wait = 0
	} else if deaf {
		wait = min(wait, deafness)
	}
	if set == nil {
		set = make([]unix.PollFd, 3)
		set[0].Fd, set[1].Fd = -1, -1
	}
	set[2] = unix.PollFd{Fd: int32(l.bell.fd), Events: unix.POLLIN}
	timeout := -1
	if wait != never {
		timeout = int((min(max(wait, 0), time.Hour) + time.Millisecond - 1) / time.Millisecond)
	}
	n, _ = l.cfg.Local.Poll(set, timeout)
	l.bell.wake(set[2].Revents)
	return n
}

// due does what its time has come for, and returns when to look again.
func (w *worker) due() time.Duration {
	if w.run >= w.killAt {
		w.p.Signal(syscall.SIGKILL)
		w.killAt = never
	}
	if w.run >= w.over {
		w.over = never
		w.hangUp()
	}
	if w.finished {
		return w.killAt
	}
	next := min(w.over, w.expire())
	if age := w.cfg.Life.Age; age > 0 && !w.retired {
		if w.run-w.born >= age {
			w.retired = true
		} else {
			next = min(next, w.born+age)
		}
	}
	if w.p.In >= 0 && w.placed == 0 && w.part == 0 && (w.retired || w.left == task.LeftNone && len(w.waiting()) == 0) {
		w.retired, w.dismissed = true, true
		closeFD(&w.p.In)
	}
	return next
}

// expire ends the worker if a record has timed out, and returns when the next one does.
func (w *worker) expire() time.Duration {
	next := never
	placed := w.waiting()[:w.placed]
	if w.protocol != task.JSONProtocol {
		placed = placed[:min(w.placed, 1)]
	}
	for i := range placed {
		f := &placed[i]
		limit := cmp.Or(f.task.Timeout, w.cfg.Limit.Timeout)
		if limit <= 0 {
			continue
		}
		if w.run < f.since+limit {
			next = min(next, f.since+limit)
			continue
		}
		f.fate = task.Timeout
		w.finish(false)
		next = w.killAt
	}
	return next
}

// finish asks the worker to end, and has it killed if it does not, or at once. The lane
// goes on when it has ended.
func (w *worker) finish(kill bool) {
	if kill {
		w.p.Signal(syscall.SIGKILL)
		w.finished, w.retired, w.killAt = true, true, never
		closeFD(&w.p.In)
	}
	if w.finished {
		return
	}
	w.finished, w.retired = true, true
	after := w.cfg.Limit.KillAfter
	if len(w.waiting()) > 0 {
		after = cmp.Or(w.waiting()[0].task.KillAfter, after)
	}
	w.killAt = w.run + after
	closeFD(&w.p.In)
	w.p.Signal(syscall.SIGTERM)
}

// hangUp ends a worker that has closed a stream and lives on.
func (w *worker) hangUp() {
	if w.placed > 0 && !w.finished && w.waiting()[0].begin < w.read() {
		stream := "stdin"
		if w.p.Out < 0 {
			stream = "stdout"
		}
		w.bad(fmt.Sprintf("the worker closed %s", stream))
	}
	w.finish(false)
}

// bad ends the worker because of what it answered to its oldest record.
func (w *worker) bad(came string) {
	if f := &w.waiting()[0]; f.fate == 0 {
		f.fate, f.why = task.BadAnswer, fmt.Errorf("expected %s for record %d, got %s", w.expected(), f.task.ID, came)
	}
	w.finish(false)
}

// expected says what a record's answer is.
func (w *worker) expected() string {
	switch w.protocol {
	case task.NULProtocol:
		return "one answer that ends in NUL"
	case task.JSONProtocol:
		return "one JSON object with id and exit"
	}
	return "one line"
}

// send writes as much as the worker takes.
func (w *worker) send() {
	for w.ready && !w.full && !w.finished && w.p.In >= 0 {
		if len(w.out) == 0 {
			if w.out = w.place(w.out); len(w.out) == 0 {
				return
			}
		}
		n, err := syscall.Write(w.p.In, w.out)
		switch {
		case err == syscall.EAGAIN:
			w.full = true
		case err == syscall.EINTR:
		case err != nil: // it may still answer what it has read, or be about to end
			w.retired, w.full = true, false
			w.over = min(w.over, w.run+grace)
			w.placing -= int64(len(w.out))
			w.out = w.out[:0]
			return
		case n == len(w.out):
			w.out = w.out[:0]
		default:
			w.out = w.out[n:]
		}
	}
}

// place appends what the worker gets next to b.
func (w *worker) place(b []byte) []byte {
	waiting := w.waiting()
	for w.placed < len(waiting) && len(b) < pipeSize {
		f := &waiting[w.placed]
		if w.part == 0 {
			if w.retired {
				break
			}
			f.begin, f.since, f.start = w.placing+int64(len(b)), w.run, w.at
			w.count++
			if w.count == w.cfg.Life.Records {
				w.retired = true
			}
			if w.pending != nil {
				w.complain(f, w.pending)
				w.pending = nil
			}
			if w.protocol == task.JSONProtocol {
				b = strconv.AppendUint(append(b, `{"id":`...), f.task.ID, 10)
				b = append(b, ',')
			}
		}
		n := min(len(f.task.Stdin)-w.part, pipeSize)
		b = append(b, f.task.Stdin[w.part:w.part+n]...)
		if w.part += n; w.part < len(f.task.Stdin) {
			break
		}
		if w.protocol == task.JSONProtocol {
			b = strconv.AppendInt(append(b, `,"attempt":`...), int64(f.number), 10)
			b = append(b, '}')
		}
		b = append(b, w.mark)
		w.part = 0
		w.placed++
	}
	w.placing += int64(len(b))
	return b
}

// readErr reads stderr once.
func (w *worker) readErr() (more bool) {
	var buf [4 << 10]byte
	n, err := syscall.Read(w.p.Err, buf[:])
	switch {
	case err == syscall.EINTR:
		return true
	case err == syscall.EAGAIN:
		return false
	case err != nil || n <= 0:
		closeFD(&w.p.Err)
		return false
	}
	p := buf[:n]
	if w.said = append(w.said, p...); len(w.said) > 2*lastSaid {
		w.said = append(w.said[:0], w.said[len(w.said)-lastSaid:]...)
	}
	switch {
	case w.placed > 0 || w.part > 0:
		w.complain(&w.waiting()[0], p)
	case w.count == 0 && len(w.pending) < mostMemory && w.left != task.LeftNone:
		w.pending = append(w.pending, p...)
	default:
		w.stray(p)
	}
	return true
}

// stray shows stderr that belongs to no record.
func (l *lane) stray(p []byte) {
	if l.cfg.Stray == nil || len(p) == 0 {
		return
	}
	if l.strays == nil {
		l.strays = l.cfg.Stray(l.slot)
	}
	_, _ = l.strays.Write(p) // the sink itself reports an error to the run
}

// readOut reads stdout once and looks at the answers in it.
func (w *worker) readOut() (more bool) {
	n, err := syscall.Read(w.p.Out, w.buf[w.to:])
	switch {
	case err == syscall.EINTR:
		return true
	case err == syscall.EAGAIN:
		return false
	case err != nil || n <= 0:
		closeFD(&w.p.Out)
		w.over = min(w.over, w.run+grace)
		return false
	}
	w.to += n
	for {
		i := bytes.IndexByte(w.buf[w.from:w.to], w.mark)
		if i < 0 {
			break
		}
		line := w.buf[w.from : w.from+i+1]
		w.from += i + 1
		w.line(line)
	}
	switch {
	case w.from == w.to:
		w.from, w.to = 0, 0
	case w.from > 0:
		w.to = copy(w.buf, w.buf[w.from:w.to])
		w.from = 0
	case w.to == len(w.buf):
		w.overflow()
	}
	if w.placed > 0 && w.protocol != task.JSONProtocol {
		f := &w.waiting()[0]
		f.since = max(f.since, w.run)
	}
	return true
}

// overflow makes room for the rest of a long answer.
func (w *worker) overflow() {
	w.collect(&w.partial, w.buf[:w.to], true)
	w.to = 0
}

// line takes a line of stdout with its end.
func (w *worker) line(p []byte) {
	switch {
	case !w.ready:
		w.ready = w.cfg.Life.Ready.Match(p[:len(p)-1])
		w.partial = capture{}
	case w.finished:
	case w.placed == 0:
		w.surplus(p)
	default:
		w.answer(p)
	}
}

// answer ends the oldest record with its answer, of which p is the last part.
func (w *worker) answer(p []byte) {
	f := &w.waiting()[0]
	if w.cfg.Plan.Show == task.ShowLines {
		s := w.open(f)
		if w.partial.kept != nil {
			_, _ = w.partial.kept.WriteTo(s.out)
		} else {
			_, _ = s.out.Write(w.partial.text)
		}
		_, _ = s.out.Write(p) // the sink itself reports an error to the run
	}
	r := w.newResult(f)
	r.Outcome = task.OK
	switch whole := len(w.partial.text) == 0 && w.partial.kept == nil; {
	case whole && w.cfg.Plan.Keeps():
		w.keepText(p, r, &r.out, &r.Stdout)
	case !whole:
		w.collect(&w.partial, p, true)
		w.keep(&w.partial, r, &r.out, &r.Stdout)
	}
	w.ended = append(w.ended, &r.Result)
	w.pop()
	w.placed--
	w.answers++
}

// surplus takes an answer for which there is no record.
func (w *worker) surplus(p []byte) {
	if w.p.In < 0 {
		w.notice(fmt.Sprintf("worker %d wrote a line after its last answer: %s", w.slot.ID, excerpt(p)))
		return
	}
	w.finish(false)
	if len(w.ended) == 0 {
		w.notice(fmt.Sprintf("worker %d wrote a line that answers no record, and is replaced: %s", w.slot.ID, excerpt(p)))
		return
	}
	r := w.ended[len(w.ended)-1]
	r.Outcome, r.Code = task.BadAnswer, 0
	r.Err = fmt.Errorf("expected %s for record %d, got another one: %s", w.expected(), r.Task.ID, excerpt(p))
}

// bury reads what a worker that has exited has left, reaps it, and ends its flights.
func (w *worker) bury() {
	for w.p.Err >= 0 && w.readErr() {
	}
	for w.p.Out >= 0 && w.readOut() {
	}
	read := w.read()
	ws := w.p.Reap()
	l, how := w.lane, exitText(ws)
	switch {
	case w.finished:
	case !w.dismissed:
		l.died(how, w.said, w.answers > 0, read > 0)
		if w.answers > 0 && w.placed == 0 && w.part == 0 && ws != 0 {
			l.notice(fmt.Sprintf("worker %d ended while it had no record: %s", l.slot.ID, how))
		}
	case ws != 0:
		l.notice(fmt.Sprintf("worker %d ended after its last answer: %s", l.slot.ID, how))
	}
	for i := range w.waiting() {
		f := &w.waiting()[i]
		begun := (i < w.placed || i == w.placed && w.part > 0) && f.begin < read
		switch {
		case f.fate != 0:
			w.end(f, ws)
		case begun && !w.finished && (i == 0 || w.protocol == task.JSONProtocol):
			w.blame(f, ws, how)
		default:
			w.report(f, task.Lost, nil).Unbegun = true
		}
	}
	clear(l.flights)
	l.flights, l.first = l.flights[:0], 0
	l.w = nil
}

// read returns how many bytes the worker can have read.
func (w *worker) read() int64 {
	read := w.placing - int64(len(w.out))
	if w.p.In >= 0 {
		unread, _ := unix.IoctlGetInt(w.p.In, unix.TIOCINQ)
		read -= int64(unread)
	}
	return read
}

// end ends a record with its fate.
func (w *worker) end(f *flight, ws syscall.WaitStatus) {
	r := w.report(f, f.fate, f.why)
	switch {
	case f.fate == task.StartFailed:
		r.Code, r.BadCommand = 126, true
	case ws.Signaled() && f.fate != task.BadAnswer:
		r.Signal = int(ws.Signal())
	}
}

// blame ends a record that the worker had begun when it ended of itself.
func (w *worker) blame(f *flight, ws syscall.WaitStatus, how string) {
	switch {
	case ws.Signaled():
		w.report(f, task.Signal, fmt.Errorf("the worker ended before it answered: %s", how)).Signal = int(ws.Signal())
	case ws.ExitStatus() != 0:
		w.report(f, task.Exit, fmt.Errorf("the worker ended before it answered: %s", how)).Code = ws.ExitStatus()
	default:
		came := "none before it ended"
		if w.partial.kept != nil || len(w.partial.text) > 0 || w.to > 0 {
			came = "half of one before it ended: " + excerpt(append(w.partial.text, w.buf[:w.to]...))
		}
		w.report(f, task.BadAnswer, fmt.Errorf("expected %s for record %d, got %s", w.expected(), f.task.ID, came))
	}
}

// exitText says how a worker ended.
func exitText(ws syscall.WaitStatus) string {
	if ws.Signaled() {
		return "killed by " + unix.SignalName(ws.Signal())
	}
	return "exit status " + strconv.Itoa(ws.ExitStatus())
}

func closeFD(fd *int) {
	if *fd >= 0 {
		_ = syscall.Close(*fd)
		*fd = -1
	}
}
