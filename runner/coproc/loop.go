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

	"crew/runner/proc"
	"crew/runner/task"
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
	cfg  Config // that of Workers, with the life of the loop's own worker
	slot task.Slot

	served bool // by one goroutine for its life

	// under Workers.mu

	parked bool    // nobody serves it until the next Run of the slot
	calls  []*call // that it has not taken yet

	// state

	bell     bell
	run      time.Duration // the run's clock at the beginning of the turn
	at       time.Time     // the time at the beginning of the turn
	left     task.Left
	flights  []flight // attempts in the order in which they came
	first    int      // index of the first one that has not ended
	ended    []*task.Result
	w        *worker // nil if none lives
	deaths   int     // workers in a row that ended without having worked
	failures int     // the same, before they read a record
	restart  time.Duration
	short    bool           // it needs something that other workers hold
	slab     []byte         // for small outputs
	results  []result       // for the next attempts that end
	stray    io.WriteCloser // nil before anything has come

	mu       sync.Mutex
	orders   []order
	cancel   context.CancelFunc // ends a start; nil if none is under way
	speaking []*output          // stderr of unanswered records
}

// flight is an attempt that a loop has taken and not reported yet.
type flight struct {
	task       *task.Task
	number     int
	units      []task.Units
	begin, end int64         // its bytes in what the worker gets; unset until it is placed
	since      time.Duration // since when the worker owes the answer
	start      time.Time
	fate       task.Outcome // its outcome, for which the loop ends the worker; 0 for none
	why        error        // why it has that
	said       *output      // nil if nothing has come
}

// record returns the number by which the worker and the user know the task.
func (f *flight) record() uint64 {
	if o := f.task.Origin; o != nil {
		return o.Task
	}
	return f.task.ID
}

// forget makes the flight as it came.
func (f *flight) forget() {
	f.said.discard()
	*f = flight{task: f.task, number: f.number, units: f.units}
}

// attempt returns the attempt's number for them.
func (f *flight) attempt() int {
	if o := f.task.Origin; o != nil {
		return o.Number
	}
	return f.number
}

// held returns the units that the attempt holds for them.
func (f *flight) held() []task.Units {
	return task.Attempt{Task: f.task, Units: f.units}.Origin().Units
}

// order asks for the end of an attempt.
type order struct {
	id     uint64 // 0 for all, and the worker
	number int    // of the attempt
	why    task.Outcome
	kill   bool
}

func newLoop(w *Workers, slot task.Slot) *loop {
	return &loop{Workers: w, cfg: w.cfg, slot: slot, bell: bell{fd: -1}}
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

// serve runs what swap brings until it returns task.LeftNone.
func (l *loop) serve(swap task.Swap) {
	l.bell.ring()
	for {
		if len(l.ended) == 0 { // otherwise they ended just now
			l.run, l.at = l.clock.Now()
		}
		if l.bell.rang() || len(l.ended) > 0 {
			var next []task.Attempt
			next, l.left = swap(l.ended)
			clear(l.ended)
			l.ended = l.ended[:0]
			for _, a := range next {
				l.push(flight{task: a.Task, number: a.Number, units: a.Units})
			}
			l.obey()
		}
		switch {
		case l.left == leftParked && len(l.ended) == 0:
			return
		case len(l.ended) > 0:
		case l.w != nil:
			l.w.turn()
		case len(l.waiting()) == 0 && l.left == task.LeftNone:
			return
		default:
			l.begin()
		}
	}
}

// push adds a flight. It moves the others to the front instead of growing.
func (l *loop) push(f flight) {
	if l.first > 0 && len(l.flights) == cap(l.flights) {
		n := copy(l.flights, l.flights[l.first:])
		clear(l.flights[n:])
		l.flights, l.first = l.flights[:n], 0
	}
	l.flights = append(l.flights, f)
}

// waiting returns the flights that have not ended.
func (l *loop) waiting() []flight { return l.flights[l.first:] }

// pop removes the first flight.
func (l *loop) pop() {
	l.flights[l.first] = flight{}
	if l.first++; l.first == len(l.flights) {
		l.flights, l.first = l.flights[:0], 0
	}
}

// remove removes the waiting flight i.
func (l *loop) remove(i int) {
	if i == 0 {
		l.pop()
		return
	}
	l.flights = slices.Delete(l.flights, l.first+i, l.first+i+1)
}

// obey carries out the orders.
func (l *loop) obey() {
	l.mu.Lock()
	orders := l.orders
	l.orders = nil
	l.mu.Unlock()
	for _, o := range orders {
		if o.id == 0 && l.w != nil {
			l.w.finish(o.kill)
		}
		for i := len(l.waiting()) - 1; i >= 0; i-- {
			f := &l.waiting()[i]
			if o.id != 0 && (f.task.ID != o.id || f.number != o.number) {
				continue
			}
			if l.w == nil || i >= l.w.begun() {
				l.report(f, o.why, nil)
				l.remove(i)
				continue
			}
			if f.fate == 0 {
				f.fate = o.why
			}
			l.w.finish(o.kill)
		}
	}
}

// report ends a flight, which the caller removes, without an answer.
func (l *loop) report(f *flight, o task.Outcome, err error) *result {
	r := l.newResult(f)
	r.Outcome, r.Err = o, err
	l.ended = append(l.ended, &r.Result)
	return r
}

// begin starts a worker if one is needed, and sleeps otherwise.
func (l *loop) begin() {
	wait := never
	if len(l.waiting()) == 0 {
		l.setShort(false, nil)
	}
	eager := l.cfg.Life.Eager != nil && l.left == task.LeftMore && l.failures < mostFailures && l.Workers.short.Load() == 0
	if eager || len(l.waiting()) > 0 {
		wait = l.restart - l.run
	}
	if wait > 0 {
		l.sleep(make([]unix.PollFd, 1), wait)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l.mu.Lock()
	l.cancel = cancel
	ordered := len(l.orders) > 0
	l.mu.Unlock()
	var p *proc.Worker
	var err error
	if !ordered {
		p, err = l.cfg.Local.StartWorker(ctx, l.model())
	}
	l.mu.Lock()
	l.cancel = nil
	l.mu.Unlock()
	switch {
	case p != nil:
		l.setShort(false, nil)
		l.w = newWorker(l, p)
	case err != nil && ctx.Err() == nil:
		l.cannotStart(ctx, err)
	}
}

// model returns the attempt whose command the next worker runs.
func (l *loop) model() task.Attempt {
	if len(l.waiting()) == 0 {
		return task.Attempt{Task: l.cfg.Life.Eager, Slot: l.slot}
	}
	return task.Attempt{Task: l.waiting()[0].task, Slot: l.slot}
}

// setShort says whether the loop needs something that other workers hold. Those that are
// idle end then.
func (l *loop) setShort(short bool, err error) {
	switch {
	case l.short == short:
	case short:
		l.notice(fmt.Sprintf("worker %d %v", l.slot.ID, err))
		l.Workers.short.Add(1)
	default:
		l.Workers.short.Add(-1)
	}
	if l.short = short; short {
		l.free()
	}
}

// cannotStart reports that no worker could be started.
func (l *loop) cannotStart(ctx context.Context, err error) {
	if errors.Is(err, proc.ErrShort) {
		l.restart = l.run + shortAgain
		l.setShort(true, err)
		return
	}
	if len(l.waiting()) == 0 {
		l.failures = mostFailures // until there is a record that can tell
		l.restart = l.run
		return
	}
	r := l.newResult(&l.waiting()[0])
	proc.StartFailed(ctx, &r.Result, err)
	r.Start, r.End, r.PID = l.at, l.at, 0
	l.ended = append(l.ended, &r.Result)
	l.pop()
	for len(l.waiting()) > 0 { // the others come back uncounted
		l.report(&l.waiting()[0], task.Lost, nil).Unbegun = true
		l.pop()
	}
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
	times := l.failures
	if times < mostFailures {
		times = all
	}
	if len(l.waiting()) == 0 || l.failures < mostFailures && all < mostFailuresAll {
		l.notice(fmt.Sprintf("worker %d ended before it read a record: %s", l.slot.ID, how))
		return
	}
	f := &l.waiting()[0]
	f.fate = task.StartFailed
	f.why = badCommand{fmt.Errorf("worker %s ended %d times before it read a record: %s",
		task.Quote(task.Shorten(f.task.Words(f.task.ArgvOn(l.slot.ID, l.slot.Host, nil)), excerptSize)), times, how)}
}

// proven takes note of a worker that works.
func (l *loop) proven() {
	l.deaths, l.failures = 0, 0
	l.Workers.failures.Store(0)
}

// badCommand is the error of a command whose workers end before they read a record.
type badCommand struct{ error }

// lastLines returns the end of what a worker said, on one line.
func lastLines(said []byte) string {
	const most = 200
	lines := strings.FieldsFunc(string(said), func(r rune) bool { return r == '\n' || r == '\r' })
	text := strings.Join(lines[max(0, len(lines)-2):], " | ")
	return strings.ToValidUTF8(text[max(0, len(text)-most):], "\uFFFD")
}
