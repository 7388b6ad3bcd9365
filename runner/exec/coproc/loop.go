package coproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/proc"
	"crew/runner/exec/spool"
)

const (
	backoffFirst = 100 * time.Millisecond // pause before the second start in a row without an answer
	backoffMax   = 5 * time.Second
	shortRetry   = 50 * time.Millisecond // pause before another start if resources were short

	maxFailures = 3 // the run stops once this many workers of a slot in a row have ended before they read a record

	never = time.Duration(math.MaxInt64)
)

// loop is the event loop of a slot. Only the goroutine of serve may use it, except for requestEnd and
// the bell.
type loop struct {
	// configuration

	*Workers
	task.Life // of the workers of this slot
	readyLine *regexp.Regexp
	slot      task.Slot

	// for Run; guarded by Workers.mu

	calls    map[uint64]*call // by task
	incoming []task.Attempt   // attempts of calls that swap has not returned yet
	closing  bool             // no more calls will follow
	gone     chan struct{}    // closed when the loop has ended

	// state

	bell          bell
	now           time.Duration // the run's clock at the beginning of the turn
	wall          time.Time     // the time at the beginning of the turn
	expects       task.Expectation
	attempts      []*openAttempt // in the order of their arrival
	ended         []*task.Result
	w             *worker // nil if there is no worker
	deaths        int     // number of successive workers that ended without having answered or failed a record
	failures      int     // number of successive workers that ended before they read a record
	restartAt     time.Duration
	short         bool           // other workers hold resources that it needs
	spareAttempts []openAttempt  // allocated for the next attempts
	strayTo       io.WriteCloser // nil before it is needed

	messages []message // in order

	mu          sync.Mutex
	endRequests []endRequest
	sent        []message          // since the beginning of the latest turn
	unread      int                // size of sent and messages
	cancel      context.CancelFunc // cancels a start that is under way; nil before the first start
	liveStderr  []*output          // stderr of unanswered records
}

// openAttempt is an attempt that a loop has taken and not reported yet. Its outcome is 0 until it
// ends, or until the loop ends the worker because of it.
type openAttempt struct {
	task.Result
	begin, end int64         // range of its bytes in the worker's input; set when it is encoded
	since      time.Duration // when the worker began to owe the answer
	output     *output       // nil if there is none
	smallOut   spool.Text    // its stdout, if that is small
}

// attempt returns the attempt, without its slot.
func (f *openAttempt) attempt() task.Attempt {
	return task.Attempt{Task: f.Task, Number: f.Result.Attempt, Units: f.Units}
}

// record returns the number of the task that the worker and the user know.
func (f *openAttempt) record() uint64 { return f.attempt().Origin().Task }

// endRequest asks a loop to end an attempt.
type endRequest struct {
	id     uint64 // 0 means all attempts and the worker
	number int    // number of the attempt
	why    task.Outcome
	kill   bool
}

func newLoop(w *Workers, slot task.Slot, life *task.Life) *loop {
	l := &loop{Workers: w, Life: *life, slot: slot, bell: bell{fd: -1}, gone: make(chan struct{}), calls: map[uint64]*call{}}
	var err error
	if l.readyLine, err = regexp.Compile(l.Ready); err != nil { // from another machine
		l.Ready = ""
	}
	return l
}

// requestEnd adds a request. It is safe for concurrent use.
func (l *loop) requestEnd(o endRequest) {
	l.mu.Lock()
	l.endRequests = append(l.endRequests, o)
	if l.cancel != nil {
		l.cancel()
	}
	l.mu.Unlock()
	l.bell.ring()
}

// serve runs the attempts that swap returns until swap returns task.ExpectNone, and closes the loop.
func (l *loop) serve(swap task.Swap) {
	l.bell.ring()
	for {
		if len(l.ended) == 0 { // otherwise the clock has just been read
			l.now, l.wall = l.Clock.Now()
		}
		if l.bell.rang() || len(l.ended) > 0 {
			l.mu.Lock()
			requests := l.endRequests // swap has returned the attempts of these requests, or returns them now
			l.endRequests = nil
			l.messages, l.sent = append(l.messages, l.sent...), nil
			l.mu.Unlock()
			var next []task.Attempt
			next, l.expects = swap(l.ended)
			clear(l.ended)
			l.ended = l.ended[:0]
			for _, a := range next {
				l.addAttempt(a)
			}
			l.handleEndRequests(requests)
		}
		switch {
		case len(l.ended) > 0:
		case l.w != nil:
			l.w.runOnce()
		case len(l.attempts) == 0 && l.expects == task.ExpectNone:
			l.close()
			return
		default:
			l.startOrSleep()
		}
	}
}

func (l *loop) addAttempt(a task.Attempt) {
	if len(l.spareAttempts) == 0 {
		l.spareAttempts = make([]openAttempt, attemptsAtOnce)
	}
	f := &l.spareAttempts[0]
	l.spareAttempts = l.spareAttempts[1:]
	f.Task, f.Attempt, f.Units, f.Worker, f.Host = a.Task, a.Number, a.Units, l.slot.ID, l.slot.Host
	l.attempts = append(l.attempts, f)
}

func (l *loop) removeAttempt(i int) {
	if i == 0 { // do not move the others
		l.attempts[0] = nil
		l.attempts = l.attempts[1:]
		return
	}
	l.attempts = slices.Delete(l.attempts, i, i+1)
}

func (l *loop) handleEndRequests(requests []endRequest) {
	for _, o := range requests {
		if o.id == 0 && l.w != nil {
			l.w.endWorker(o.why, o.kill)
		}
		for i := len(l.attempts) - 1; i >= 0; i-- {
			f := l.attempts[i]
			if o.id != 0 && (f.Task.ID != o.id || f.Attempt != o.number) {
				continue
			}
			if l.w == nil || i >= l.w.begun() {
				l.report(f, o.why, nil)
				l.removeAttempt(i)
				continue
			}
			if f.Outcome == 0 {
				f.Outcome = o.why
			}
			l.w.endWorker(o.why, o.kill)
		}
	}
}

// report ends an attempt with an outcome. The caller must remove it from l.attempts.
func (l *loop) report(f *openAttempt, o task.Outcome, err error) *openAttempt {
	f.Outcome, f.Err, f.End = o, err, l.wall
	if l.w != nil && !f.Start.IsZero() {
		f.PID, f.Argv = l.w.PID, l.w.argv
	} else {
		f.Argv = f.Task.ArgvOn(l.slot.ID, l.slot.Host, nil)
	}
	if f.output != nil {
		l.unpublish(f.output)
		f.output.HandOver(&f.Result)
	}
	l.ended = append(l.ended, &f.Result)
	return f
}

// startOrSleep starts a worker if one is needed, and otherwise sleeps.
func (l *loop) startOrSleep() {
	wait := never
	if len(l.attempts) == 0 {
		l.setShort(nil)
	}
	eager := l.Eager != nil && l.expects == task.ExpectMore && l.failures < maxFailures && l.Workers.short.Load() == 0
	if eager || len(l.attempts) > 0 {
		wait = l.restartAt - l.now
	}
	if wait > 0 {
		l.sleep(make([]unix.PollFd, 1), wait)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l.mu.Lock()
	if l.cancel = cancel; len(l.endRequests) > 0 {
		cancel()
	}
	l.mu.Unlock()
	switch p, err := l.StartWorker(ctx, l.commandAttempt()); {
	case err == nil:
		l.setShort(nil)
		l.w = newWorker(l, p)
	case ctx.Err() == nil:
		l.startFailed(ctx, err)
	}
}

// commandAttempt returns an attempt with the command of the next worker.
func (l *loop) commandAttempt() task.Attempt {
	if len(l.attempts) == 0 {
		return task.Attempt{Task: l.Eager, Slot: l.slot}
	}
	return task.Attempt{Task: l.attempts[0].Task, Slot: l.slot}
}

// setShort sets whether the loop needs resources that other workers hold: err says so, unless it is nil.
// If so, setShort wakes the other loops, and idle workers end.
func (l *loop) setShort(err error) {
	switch short := err != nil; {
	case l.short == short:
	case short:
		l.notify(err.Error())
		l.Workers.short.Add(1)
	default:
		l.Workers.short.Add(-1)
	}
	if l.short = err != nil; !l.short {
		return
	}
	l.Workers.mu.Lock()
	defer l.Workers.mu.Unlock()
	for _, other := range l.loops {
		other.bell.ring()
	}
}

// startFailed handles an error of StartWorker.
func (l *loop) startFailed(ctx context.Context, err error) {
	if errors.Is(err, proc.ErrShort) {
		l.restartAt = l.now + shortRetry
		l.setShort(err)
		return
	}
	if len(l.attempts) == 0 {
		l.failures = maxFailures // do not try again before there is a record to fail
		l.restartAt = l.now
		return
	}
	first := l.report(l.attempts[0], 0, nil)
	proc.StartFailed(ctx, &first.Result, err)
	first.Start, first.End = l.wall, l.wall
	for _, f := range l.attempts[1:] { // the others are returned without having begun
		l.report(f, task.Lost, nil).Unbegun = true
	}
	l.attempts = nil
}

// workerDied handles the end of a worker that has ended by itself, or that the loop has ended before it
// read a record. worked means that it has answered or failed a record, and read that it has read at least
// a part of one. If it has not worked, the next worker starts later each time.
func (l *loop) workerDied(how string, said []byte, worked, read bool) {
	if worked {
		l.resetFailures()
		return
	}
	l.restartAt = l.now
	if l.deaths > 0 {
		l.restartAt += min(backoffFirst<<min(l.deaths-1, 10), backoffMax)
	}
	l.deaths++
	if read {
		l.failures = 0
		return
	}
	l.failures++
	if last := lastLines(said); last != "" {
		how += ": " + last
	}
	if len(l.attempts) == 0 || l.failures < maxFailures {
		l.notify("ended before it read a record: " + how)
		return
	}
	f := l.attempts[0]
	f.Outcome, f.BadCommand = task.StartFailed, true
	f.Err = fmt.Errorf("worker %s ended %d times before it read a record: %s",
		task.Quote(task.Shorten(f.Task.Words(f.Task.ArgvOn(l.slot.ID, l.slot.Host, nil)), excerptSize)), l.failures, how)
}

// maxNotices is how many messages a run shows at most, as all workers may keep failing.
const maxNotices = 20

// notify shows a message about the worker. It does not wait.
func (l *loop) notify(what string) {
	text := fmt.Sprintf("worker %d %s", l.slot.ID, what)
	n := l.notices.Add(1)
	if l.Notice == nil || n > maxNotices {
		return
	}
	if n == maxNotices {
		text += "; further messages about workers are not shown"
	}
	l.notifying.Go(func() { l.Notice(text) })
}

// resetFailures records that a worker has worked.
func (l *loop) resetFailures() { l.deaths, l.failures = 0, 0 }

// lastLines returns the end of a worker's stderr as one line.
func lastLines(said []byte) string {
	const most = 200
	lines := strings.FieldsFunc(string(said), func(r rune) bool { return r == '\n' || r == '\r' })
	text := strings.Join(lines[max(0, len(lines)-2):], " | ")
	return strings.ToValidUTF8(text[max(0, len(text)-most):], "\uFFFD")
}
