package coproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
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
	backoffFirst = 100 * time.Millisecond // the pause before the second start in a row without an answer
	backoffMost  = 5 * time.Second
	shortAgain   = 50 * time.Millisecond // when to start a worker again for which something was short

	// So many workers in a row that end before they read a record stop the run: of one
	// slot, and of all.
	mostFailures    = 3
	mostFailuresAll = 10

	never = time.Duration(math.MaxInt64)
)

// loop is the event loop of a slot. All but order and the bell belong to the goroutine of
// serve.
type loop struct {
	// configuration

	*Workers
	Life // of its own worker
	slot task.Slot

	// for Run, under Workers.mu

	calls   map[uint64]*call // by task
	come    []task.Attempt   // of these, those that it has not taken yet
	closing bool             // none will follow
	gone    chan struct{}

	// state

	bell     bell
	run      time.Duration // the run's clock at the beginning of the turn
	at       time.Time     // the time at the beginning of the turn
	left     task.Expectation
	flights  []*flight // attempts that have not ended, in the order in which they came
	ended    []*task.Result
	w        *worker // nil if none lives
	deaths   int     // workers in a row that ended without having worked
	failures int     // the same, before they read a record
	restart  time.Duration
	short    bool           // it needs something that other workers hold
	slab     []byte         // for small outputs
	unused   []flight       // for the next attempts that come
	stray    io.WriteCloser // nil before anything has come

	mu       sync.Mutex
	orders   []order
	cancel   context.CancelFunc // ends a start that is under way; nil before the first
	speaking []*output          // stderr of unanswered records
}

// flight is an attempt that a loop has taken and not reported yet. Its outcome is 0 until it
// ends, or until the loop ends the worker for it.
type flight struct {
	task.Result
	begin, end int64         // its bytes in what the worker gets; unset until it is placed
	since      time.Duration // since when the worker owes the answer
	said       *output       // nil if nothing has come
	out        spool.Text    // its stdout, if that is small
}

// attempt returns the attempt, without its slot.
func (f *flight) attempt() task.Attempt {
	return task.Attempt{Task: f.Task, Number: f.Result.Attempt, Units: f.Units}
}

// record returns the number by which the worker and the user know the task.
func (f *flight) record() uint64 { return f.attempt().Origin().Task }

// order asks for the end of an attempt.
type order struct {
	id     uint64 // 0 for all, and the worker
	number int    // of the attempt
	why    task.Outcome
	kill   bool
}

func newLoop(w *Workers, slot task.Slot) *loop {
	return &loop{Workers: w, Life: w.Life, slot: slot, bell: bell{fd: -1}, gone: make(chan struct{}), calls: map[uint64]*call{}}
}

// order gives the loop an order. It is safe for concurrent use.
func (l *loop) order(o order) {
	l.mu.Lock()
	l.orders = append(l.orders, o)
	if l.cancel != nil {
		l.cancel()
	}
	l.mu.Unlock()
	l.bell.ring()
}

// serve runs what swap brings until it returns task.ExpectNone.
func (l *loop) serve(swap task.Swap) {
	l.bell.ring()
	for {
		if len(l.ended) == 0 { // otherwise they ended just now
			l.run, l.at = l.Clock.Now()
		}
		if l.bell.rang() || len(l.ended) > 0 {
			l.mu.Lock()
			orders := l.orders // swap has brought the attempts of these, or does it now
			l.orders = nil
			l.mu.Unlock()
			var next []task.Attempt
			next, l.left = swap(l.ended)
			clear(l.ended)
			l.ended = l.ended[:0]
			for _, a := range next {
				l.push(a)
			}
			l.obey(orders)
		}
		switch {
		case len(l.ended) > 0:
		case l.w != nil:
			l.w.turn()
		case len(l.flights) == 0 && l.left == task.ExpectNone:
			return
		default:
			l.begin()
		}
	}
}

// push adds a flight.
func (l *loop) push(a task.Attempt) {
	if len(l.unused) == 0 {
		l.unused = make([]flight, flightsAtOnce)
	}
	f := &l.unused[0]
	l.unused = l.unused[1:]
	f.Task, f.Attempt, f.Units, f.Worker, f.Host = a.Task, a.Number, a.Units, l.slot.ID, l.slot.Host
	l.flights = append(l.flights, f)
}

// remove removes flight i.
func (l *loop) remove(i int) {
	if i == 0 { // without moving the others
		l.flights[0] = nil
		l.flights = l.flights[1:]
		return
	}
	l.flights = slices.Delete(l.flights, i, i+1)
}

// obey carries out orders.
func (l *loop) obey(orders []order) {
	for _, o := range orders {
		if o.id == 0 && l.w != nil {
			l.w.finish(o.kill)
		}
		for i := len(l.flights) - 1; i >= 0; i-- {
			f := l.flights[i]
			if o.id != 0 && (f.Task.ID != o.id || f.Attempt != o.number) {
				continue
			}
			if l.w == nil || i >= l.w.begun() {
				l.report(f, o.why, nil)
				l.remove(i)
				continue
			}
			if f.Outcome == 0 {
				f.Outcome = o.why
			}
			l.w.finish(o.kill)
		}
	}
}

// report ends a flight, which the caller removes.
func (l *loop) report(f *flight, o task.Outcome, err error) *flight {
	f.Outcome, f.Err, f.End = o, err, l.at
	if l.w != nil && !f.Start.IsZero() {
		f.PID, f.Argv = l.w.PID, l.w.argv
	} else {
		f.Argv = f.Task.ArgvOn(l.slot.ID, l.slot.Host, nil)
	}
	if f.said != nil {
		l.hide(f.said)
		spool.HandOver(&f.Result, &f.said.out, &f.said.err)
		f.said.close()
	}
	l.ended = append(l.ended, &f.Result)
	return f
}

// begin starts a worker if one is needed, and sleeps otherwise.
func (l *loop) begin() {
	wait := never
	if len(l.flights) == 0 {
		l.setShort(false, nil)
	}
	eager := l.Eager != nil && l.left == task.ExpectMore && l.failures < mostFailures && l.Workers.short.Load() == 0
	if eager || len(l.flights) > 0 {
		wait = l.restart - l.run
	}
	if wait > 0 {
		l.sleep(make([]unix.PollFd, 1), wait)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l.mu.Lock()
	if l.cancel = cancel; len(l.orders) > 0 {
		cancel()
	}
	l.mu.Unlock()
	switch p, err := l.StartWorker(ctx, l.model()); {
	case err == nil:
		l.setShort(false, nil)
		l.w = newWorker(l, p)
	case ctx.Err() == nil:
		l.cannotStart(ctx, err)
	}
}

// model returns the attempt whose command the next worker runs.
func (l *loop) model() task.Attempt {
	if len(l.flights) == 0 {
		return task.Attempt{Task: l.Eager, Slot: l.slot}
	}
	return task.Attempt{Task: l.flights[0].Task, Slot: l.slot}
}

// setShort says whether the loop needs something that other workers hold. Those that are
// idle end then.
func (l *loop) setShort(short bool, err error) {
	switch {
	case l.short == short:
	case short:
		l.tell(err.Error())
		l.Workers.short.Add(1)
	default:
		l.Workers.short.Add(-1)
	}
	if l.short = short; !short {
		return
	}
	l.Workers.mu.Lock()
	defer l.Workers.mu.Unlock()
	for _, other := range l.loops {
		other.bell.ring()
	}
}

// cannotStart reports that no worker could be started.
func (l *loop) cannotStart(ctx context.Context, err error) {
	if errors.Is(err, proc.ErrShort) {
		l.restart = l.run + shortAgain
		l.setShort(true, err)
		return
	}
	if len(l.flights) == 0 {
		l.failures = mostFailures // until there is a record that can tell
		l.restart = l.run
		return
	}
	first := l.report(l.flights[0], 0, nil)
	proc.StartFailed(ctx, &first.Result, err)
	first.Start, first.End = l.at, l.at
	for _, f := range l.flights[1:] { // the others come back uncounted
		l.report(f, task.Lost, nil).Unbegun = true
	}
	l.flights = nil
}

// died takes note of a worker that ended of itself. Unless it worked, which means that
// it answered or failed a record, the next one starts later each time.
func (l *loop) died(how string, said []byte, worked, read bool) {
	if worked {
		l.proven()
		return
	}
	l.restart = l.run
	if l.deaths > 0 {
		l.restart += min(backoffFirst<<min(l.deaths-1, 10), backoffMost)
	}
	l.deaths++
	if read {
		l.failures = 0
		return
	}
	l.failures++
	all := int(l.Workers.failures.Add(1))
	if last := lastLines(said); last != "" {
		how += ": " + last
	}
	if len(l.flights) == 0 || l.failures < mostFailures && all < mostFailuresAll {
		l.tell("ended before it read a record: " + how)
		return
	}
	f := l.flights[0]
	f.Outcome, f.BadCommand = task.StartFailed, true
	f.Err = fmt.Errorf("worker %s ended %d times before it read a record: %s",
		task.Quote(task.Shorten(f.Task.Words(f.Task.ArgvOn(l.slot.ID, l.slot.Host, nil)), excerptSize)), max(l.failures, all), how)
}

// mostNotices is how many messages a run shows, as all its workers may fail all the time.
const mostNotices = 20

// tell shows a message about the worker without waiting for it.
func (l *loop) tell(what string) {
	text := fmt.Sprintf("worker %d %s", l.slot.ID, what)
	n := l.notices.Add(1)
	if l.Notice == nil || n > mostNotices {
		return
	}
	if n == mostNotices {
		text += "; what else goes wrong with workers is not shown"
	}
	l.saying.Go(func() { l.Notice(text) })
}

// proven takes note of a worker that works.
func (l *loop) proven() {
	l.deaths, l.failures = 0, 0
	l.Workers.failures.Store(0)
}

// lastLines returns the end of what a worker said, on one line.
func lastLines(said []byte) string {
	const most = 200
	lines := strings.FieldsFunc(string(said), func(r rune) bool { return r == '\n' || r == '\r' })
	text := strings.Join(lines[max(0, len(lines)-2):], " | ")
	return strings.ToValidUTF8(text[max(0, len(text)-most):], "\uFFFD")
}
