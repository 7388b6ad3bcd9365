package core

import (
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
	"crew/sched"
)

// sim runs a Core without goroutines, in a time of its own: input, executor, recorder and
// sinks are at hand at once, and attempts take as long as do says.
type sim struct {
	t    *testing.T
	core *Core
	now  time.Time
	wake time.Time

	// what the run is given

	tasks  int           // still to be read
	open   bool          // the input does not end
	pause  time.Duration // before each task
	change func(*task.Task)
	do     func(task.Attempt) (time.Duration, task.Outcome) // nil for a second and OK
	grace  time.Duration                                    // how long an attempt takes that is asked to end, unless it is killed
	result func(*task.Result)                               // completes a result; may be nil
	deaf   bool                                             // attempts do not end before their time
	check  func(*task.Task) *task.Result                    // of tasks that make files; nil if all have to run
	slow   bool                                             // checks do not end
	silent func(task.Attempt) time.Duration                 // for how long one has written nothing
	tokens *basket
	// figures are those of the machine.
	figures func() (processes float64, free int64)

	// what happens

	running  []simulated
	ahead    []task.Attempt // waiting at their slots
	recalled []uint64
	most     int // attempts at once
	reading  bool
	ready    time.Time      // when the reader has the next task
	ring     bool           // the sinks are to take events
	closed   bool           // they are
	ends     []*task.Result // to be recorded
	checks   []*task.Task   // to be checked
	answers  []func(*Core)  // to Tokens.Ask, and about silence
	causes   []error        // of attempts' ends
	over     bool
	sampled  []time.Time
	begun    []uint64
	events   []task.Event
	finished map[uint64]task.Outcome
}

// simulated is a running attempt.
type simulated struct {
	task.Attempt
	begun, end time.Time
	outcome    task.Outcome
}

// epoch is when runs begin.
var epoch = time.Unix(1_000_000_000, 0)

// simulate returns a run of n tasks that has just begun.
func simulate(t *testing.T, cfg Config, n int, set ...func(*sim)) *sim {
	require.NoError(t, cfg.Validate())
	s := &sim{t: t, now: epoch, ready: epoch, tasks: n, finished: map[uint64]task.Outcome{}}
	for _, f := range set {
		f(s)
	}
	s.tokens, _ = cfg.Pool.Tokens.(*basket)
	s.core = New(cfg, epoch, false)
	s.step(func(*Core) {})
	return s
}

// step brings a fact to the core and does what follows, until nothing more happens now.
func (s *sim) step(fact func(*Core)) {
	s.bring(fact)
	for s.follow() {
	}
}

// bring brings a fact to the core and notes what follows.
func (s *sim) bring(fact func(*Core)) {
	if s.over {
		return
	}
	fx := s.core.Step(s.now, fact)
	s.wake, s.over = fx.Wake, fx.Over
	s.reading = s.reading || fx.Read
	s.ring = s.ring || fx.Show
	s.ends = append(s.ends, fx.Record...)
	s.checks = append(s.checks, fx.Checks...)
	for _, a := range fx.Start {
		s.start(a.Attempt)
	}
	for _, a := range fx.Acts {
		s.act(a)
	}
	for _, a := range fx.Recall {
		s.recalled = append(s.recalled, a.Task.ID)
		s.giveBack(a.Task.ID)
	}
	for _, a := range fx.Quiet {
		s.answers = append(s.answers, func(c *Core) { c.Quiet(a, s.silent(a)) })
	}
	if fx.Sample {
		s.sampled = append(s.sampled, s.now)
		s.answers = append(s.answers, func(c *Core) { c.Sampled(s.figures()) })
	}
	for _, call := range fx.Tokens {
		call(s.tokens)
	}
	if s.tokens != nil {
		s.answers = append(s.answers, s.tokens.give()...)
	}
}

// follow does one thing that follows, and returns false if there is none.
func (s *sim) follow() bool {
	switch {
	case s.over:
		return false
	case len(s.ends) > 0:
		r := s.ends[0]
		s.ends = s.ends[1:]
		s.bring(func(c *Core) { c.Ended(r) })
	case len(s.checks) > 0 && !s.slow:
		t := s.checks[0]
		s.checks = s.checks[1:]
		var r *task.Result
		if s.check != nil {
			r = s.check(t)
		}
		s.bring(func(c *Core) { c.Checked(t, r) })
	case len(s.answers) > 0:
		answer := s.answers[0]
		s.answers = s.answers[1:]
		s.bring(answer)
	case s.reading && !s.now.Before(s.ready):
		s.read()
	case s.ring && !s.closed:
		s.ring = false
		s.show()
	default:
		return false
	}
	return true
}

// giveBack ends an attempt that has not begun.
func (s *sim) giveBack(id uint64) bool {
	i := slices.IndexFunc(s.ahead, func(a task.Attempt) bool { return a.Task.ID == id })
	if i < 0 {
		return false
	}
	a := s.ahead[i]
	s.ahead = slices.Delete(s.ahead, i, i+1)
	r := &task.Result{Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Host: a.Slot.Host, Outcome: task.Lost, Unbegun: true, End: s.now}
	s.answers = append(s.answers, func(c *Core) { c.Ended(r) })
	return true
}

// follows starts the attempt that waits for one that has ended.
func (s *sim) follows(slot int) {
	if i := slices.IndexFunc(s.ahead, func(a task.Attempt) bool { return a.Slot.ID == slot }); i >= 0 {
		a := s.ahead[i]
		s.ahead = slices.Delete(s.ahead, i, i+1)
		s.start(a)
	}
}

func (s *sim) start(a task.Attempt) {
	if s.core.cfg.Pool.Ahead > 0 && slices.ContainsFunc(s.running, func(r simulated) bool { return r.Slot.ID == a.Slot.ID }) {
		s.ahead = append(s.ahead, a)
		return
	}
	took, o := time.Second, task.OK
	if s.do != nil {
		took, o = s.do(a)
	}
	s.begun = append(s.begun, a.Task.ID)
	s.running = append(s.running, simulated{a, s.now, s.now.Add(took), o})
	s.most = max(s.most, len(s.running))
}

func (s *sim) act(a Act) {
	s.causes = append(s.causes, a.Cause)
	if s.giveBack(a.Task) {
		return
	}
	i := slices.IndexFunc(s.running, func(r simulated) bool { return r.Task.ID == a.Task && r.Number == a.Attempt })
	if i < 0 || s.deaf {
		return
	}
	if r := &s.running[i]; a.Cause == nil {
		r.end = s.now
	} else {
		r.outcome = task.EndedBy(a.Cause)
		r.end = s.now.Add(s.grace)
	}
}

// read brings the next task, or the end of the input.
func (s *sim) read() {
	switch {
	case s.tasks > 0:
		s.tasks--
		id := s.core.Number()
		t := &task.Task{ID: id, Argv: []string{"true"}, Records: [][]string{{fmt.Sprint(id)}}, Cost: 1}
		if s.change != nil {
			s.change(t)
		}
		s.ready = s.now.Add(s.pause)
		s.reading = false
		s.bring(func(c *Core) { s.reading = c.Read([]*task.Task{t}) > 0 })
	case s.open:
		s.ready = s.now.Add(1000 * time.Hour)
	default:
		s.reading = false
		s.bring(func(c *Core) { c.EndInput(io.EOF) })
	}
}

// show has the sinks take the events and, after the last, close.
func (s *sim) show() {
	var events []task.Event
	var last bool
	s.bring(func(c *Core) { events, last = c.Take(nil) })
	for _, e := range events {
		if e.Kind == task.Finished {
			if o, twice := s.finished[e.ID]; twice {
				s.t.Fatalf("task %d finished twice: %v, %v", e.ID, o, e.Result.Outcome)
			}
			s.finished[e.ID] = e.Result.Outcome
		}
	}
	s.events = append(s.events, events...)
	if last {
		s.closed = true
		s.bring((*Core).Shown)
	}
}

// next returns when something happens next, or false if nothing does.
func (s *sim) next() (time.Time, bool) {
	at := s.wake
	for _, r := range s.running {
		at = earlier(at, r.end)
	}
	if s.reading {
		at = earlier(at, s.ready)
	}
	return at, !at.IsZero() && !s.over
}

// sleep lets time pass.
func (s *sim) sleep(d time.Duration) {
	until := s.now.Add(d)
	for at, ok := s.next(); ok && !at.After(until); at, ok = s.next() {
		s.now = later(s.now, at)
		i := slices.IndexFunc(s.running, func(r simulated) bool { return !r.end.After(s.now) })
		if i < 0 {
			s.step(func(*Core) {})
			continue
		}
		r := s.running[i]
		s.running = slices.Delete(s.running, i, i+1)
		s.follows(r.Slot.ID)
		res := r.result(s.now)
		if s.result != nil {
			s.result(res)
		}
		s.step(func(c *Core) { c.Ended(res) })
	}
	s.now = until
}

func (r *simulated) result(now time.Time) *task.Result {
	res := &task.Result{Task: r.Task, Attempt: r.Number, Worker: r.Slot.ID, Outcome: r.outcome, Start: r.begun, End: now}
	if r.outcome == task.Exit {
		res.Code = 1
	}
	return res
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// wait lets time pass until the run is over, and returns how it has ended.
func (s *sim) wait() *Ending {
	for !s.over {
		at, ok := s.next()
		if !ok {
			require.Fail(s.t, "nothing will ever happen", "%+v", s.core.blocking())
		}
		s.sleep(max(0, at.Sub(s.now)))
	}
	end := s.core.Ending()
	return &end
}

// try carries out a command.
func (s *sim) try(cmd task.Command) (reply task.Reply) {
	s.step(func(c *Core) {
		if reply = c.Do(cmd); cmd.Op == task.Retry && c.cfg.Feed.Open {
			require.NoError(s.t, c.add(reply.Tasks))
		}
	})
	return reply
}

// ask is try for a command that is not refused.
func (s *sim) ask(cmd task.Command) task.Reply {
	s.t.Helper()
	reply := s.try(cmd)
	require.NoError(s.t, reply.Err)
	return reply
}

func (s *sim) look() *task.Snapshot { return s.ask(task.Command{Op: task.Look}).Snapshot }

// where says what is known of a task.
func (s *sim) where(id uint64) task.Where {
	return s.ask(task.Command{Op: task.Explain, IDs: []uint64{id}}).Wheres[0]
}

// took returns how long the run has taken.
func (s *sim) took() time.Duration { return s.now.Sub(epoch) }

func (s *sim) count(o task.Outcome) (n int) {
	for _, have := range s.finished {
		if have == o {
			n++
		}
	}
	return n
}

// told reports whether there was an event of a kind.
func (s *sim) told(kind task.Kind) bool {
	return slices.ContainsFunc(s.events, func(e task.Event) bool { return e.Kind == kind })
}

// texts returns the reasons why nothing started.
func (s *sim) texts() (list []string) {
	for _, e := range s.events {
		if e.Kind == task.Blocked && e.Blocking != nil {
			list = append(list, e.Blocking.Text(e.At))
		}
	}
	return list
}

func policy(name string, topics ...sched.Topics) sched.Policy {
	cfg := sched.Config{Name: name}
	if len(topics) > 0 {
		cfg.Topics = topics[0]
	}
	p, err := sched.New(cfg)
	if err != nil {
		panic(err)
	}
	return p
}

func config(workers int) Config {
	return Config{
		Pool:  Pool{Workers: workers},
		Queue: Queue{Policy: policy("fifo"), Buffer: max(64, 2*workers)},
		Limit: Limit{KillAfter: 5 * time.Second},
	}
}

// retries is a configuration of retries that all wait as long.
func retries(n int, wait time.Duration) Retry {
	return Retry{Max: n, Delay: wait, MaxDelay: wait, Jitter: func() float64 { return 1 }}
}
