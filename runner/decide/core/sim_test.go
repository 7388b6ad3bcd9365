package core

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
)

// sim runs a Core without goroutines, on a clock of its own. Input, executor, recorder and sinks
// are immediate, and attempts take as long as do says.
type sim struct {
	t    *testing.T
	core *Core
	now  time.Time
	wake time.Time

	// the surroundings of the run

	surroundings
	change func(*task.Task)
	do     func(task.Attempt) (time.Duration, task.Outcome) // nil for a second and OK
	result func(*task.Result)                               // completes a result; may be nil
	check  func(*task.Task) *task.Result                    // checks tasks that make files; nil if all must run
	tokens *basket
	note   func(*Effects, []task.Event) // gets the effects of each step; may be nil
	// figures are those of the machine.
	figures func() (processes float64, free int64)

	// state

	running  []attemptRun
	ahead    []task.Attempt // waiting at their slots
	recalled []uint64
	peak     int // largest number of attempts at once
	reading  bool
	ready    time.Time      // when the reader has the next task
	ring     bool           // the sinks should take events
	closed   bool           // the sinks are closed
	seen     int            // events that note has got and the sinks have not taken
	ends     []*task.Result // to record
	checks   []*task.Task   // to check
	answers  []func(*Core)  // to Tokens.Ask
	causes   []error        // why attempts were asked to end
	over     bool
	sampled  []time.Time
	begun    []uint64
	verdicts []Verdict
	events   []task.Event
	finished map[uint64]task.Outcome
}

// surroundings describes the surroundings of a run.
type surroundings struct {
	Tasks int           // tasks still to be read
	Open  bool          // the input does not end
	Pause time.Duration // before each task
	Grace time.Duration // time from asking an attempt to end until it ends, unless it is killed
	Deaf  bool          // attempts ignore requests to end
	Slow  bool          // checks never end
	Stuck bool          // the sinks take no events
	Ends  error         // error that ends the input; nil for io.EOF
	Again task.Outcome  // only this outcome is retried; 0 for all failures

	Keeps bool // results are recorded before they take effect
	Quiet bool // a script does not print the ends of tasks

	// of the machine

	Load, Each float64 // processes with work to do: without tasks, and for each running task
	Free       int64   // free bytes without tasks
}

// attemptRun is a running attempt.
type attemptRun struct {
	task.Attempt
	begun, end time.Time
	outcome    task.Outcome
}

// epoch is when runs begin.
var epoch = time.Unix(1_000_000_000, 0)

// simulate returns a run of n tasks that has just begun.
func simulate(t *testing.T, cfg Config, n int, set ...func(*sim)) *sim {
	s := &sim{t: t, now: epoch, ready: epoch, surroundings: surroundings{Tasks: n}, finished: map[uint64]task.Outcome{}}
	for _, f := range set {
		f(s)
	}
	s.tokens, _ = cfg.Pool.Tokens.(*basket)
	s.core = New(cfg, Executor{}, epoch)
	s.step(func(*Core) {})
	return s
}

// step passes a fact to the core and carries out the effects, until nothing more happens now.
func (s *sim) step(fact func(*Core)) {
	s.bring(fact)
	for s.carryOut() {
	}
}

// bring passes a fact to the core and notes the effects.
func (s *sim) bring(fact func(*Core)) {
	if s.over {
		return
	}
	fx := s.core.Step(s.now, fact)
	s.wake, s.over = fx.Wake, fx.Over
	s.notice(fx)
	s.reading = s.reading || fx.Read
	s.ring = s.ring || fx.Show
	s.ends = append(s.ends, fx.Record...)
	s.checks = append(s.checks, fx.Checks...)
	for _, a := range fx.Start {
		s.start(a.Attempt)
	}
	for _, a := range fx.Stops {
		s.act(a)
	}
	for _, a := range fx.Recall {
		s.recalled = append(s.recalled, a.Task.ID)
		s.endUnbegun(a.Task.ID)
	}
	if fx.Sample {
		s.sampled = append(s.sampled, s.now)
		s.answers = append(s.answers, func(c *Core) { c.Sampled(s.figures()) })
	}
	if s.tokens != nil {
		s.answers = append(s.answers, s.tokens.give()...)
	}
}

// notice passes the events of a step to note, before the sinks take them.
func (s *sim) notice(fx *Effects) {
	events := s.core.output.events[s.seen:]
	s.seen += len(events)
	for _, e := range events {
		if e.Kind == task.Finished {
			if o, twice := s.finished[e.ID]; twice {
				s.t.Fatalf("task %d finished twice: %v, %v", e.ID, o, e.Result.Outcome)
			}
			s.finished[e.ID] = e.Result.Outcome
		}
	}
	s.events = append(s.events, events...)
	if s.note != nil {
		s.note(fx, events)
	}
}

// carryOut carries out one pending effect, and returns false if there is none.
func (s *sim) carryOut() bool {
	switch {
	case s.over:
		return false
	case len(s.ends) > 0:
		r := s.ends[0]
		s.ends = s.ends[1:]
		s.bring(func(c *Core) { c.Ended(r) })
	case len(s.checks) > 0 && !s.Slow:
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
	case s.ring && !s.closed && !s.Stuck:
		s.ring = false
		s.show()
	default:
		return false
	}
	return true
}

// endUnbegun ends an attempt that has not begun.
func (s *sim) endUnbegun(id uint64) bool {
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

// startBehind starts the attempt that waits behind an attempt that has ended.
func (s *sim) startBehind(slot int) {
	if i := slices.IndexFunc(s.ahead, func(a task.Attempt) bool { return a.Slot.ID == slot }); i >= 0 {
		a := s.ahead[i]
		s.ahead = slices.Delete(s.ahead, i, i+1)
		s.start(a)
	}
}

func (s *sim) start(a task.Attempt) {
	if s.core.cfg.Pool.Ahead > 0 && slices.ContainsFunc(s.running, func(r attemptRun) bool { return r.Slot.ID == a.Slot.ID }) {
		s.ahead = append(s.ahead, a)
		return
	}
	took, o := time.Second, task.OK
	if s.do != nil {
		took, o = s.do(a)
	}
	s.begun = append(s.begun, a.Task.ID)
	s.running = append(s.running, attemptRun{a, s.now, s.now.Add(took), o})
	s.peak = max(s.peak, len(s.running))
}

func (s *sim) act(a Stop) {
	s.causes = append(s.causes, a.Cause)
	if s.endUnbegun(a.Task) {
		return
	}
	i := slices.IndexFunc(s.running, func(r attemptRun) bool { return r.Task.ID == a.Task && r.Number == a.Attempt })
	if i < 0 || s.Deaf {
		return
	}
	if r := &s.running[i]; a.Cause == nil {
		r.end = s.now
	} else {
		r.outcome = task.OutcomeOf(a.Cause)
		r.end = s.now.Add(min(s.Grace, cmp.Or(r.Task.KillAfter, s.core.cfg.Limit.KillAfter)))
	}
}

// read brings the next task, or the end of the input.
func (s *sim) read() {
	switch {
	case s.Tasks > 0:
		s.Tasks--
		id := s.core.Number()
		t := &task.Task{ID: id, Argv: []string{"true"}, Records: [][]string{{fmt.Sprint(id)}}, Cost: 1}
		if s.change != nil {
			s.change(t)
		}
		s.ready = s.now.Add(s.Pause)
		s.reading = false
		s.bring(func(c *Core) { s.reading = c.Read([]*task.Task{t}) > 0 })
	case s.Open:
		s.ready = s.now.Add(1000 * time.Hour)
	default:
		s.reading = false
		s.bring(func(c *Core) { c.EndInput(cmp.Or(s.Ends, io.EOF)) })
	}
}

// show lets the sinks take the events and, after the last ones, close.
func (s *sim) show() {
	var last bool
	s.bring(func(c *Core) {
		s.seen = 0
		_, last = c.Take(nil)
	})
	if last {
		s.closed = true
		s.bring((*Core).Shown)
	}
}

// next returns when something happens next. It returns false if nothing will.
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
		i := slices.IndexFunc(s.running, func(r attemptRun) bool { return !r.end.After(s.now) })
		if i < 0 {
			s.step(func(*Core) {})
			continue
		}
		r := s.running[i]
		s.running = slices.Delete(s.running, i, i+1)
		s.startBehind(r.Slot.ID)
		res := r.result(s.now)
		if s.result != nil {
			s.result(res)
		}
		if s.Keeps {
			s.step(func(c *Core) { s.verdicts = append(s.verdicts, c.Decide(res)) })
		}
		s.step(func(c *Core) { c.Ended(res) })
	}
	s.now = until
}

func (r *attemptRun) result(now time.Time) *task.Result {
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

// wait lets time pass until the run is over, and returns how it ended.
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
		if reply = c.Do(cmd); len(reply.Tasks) > 0 && cmd.Op == task.Retry && c.cfg.Feed.Open {
			require.NoError(s.t, c.addTasks(task.Command{Tasks: reply.Tasks, N: 1}).Err)
		}
	})
	return reply
}

// ask is try for a command that must not be refused.
func (s *sim) ask(cmd task.Command) task.Reply {
	s.t.Helper()
	reply := s.try(cmd)
	require.NoError(s.t, reply.Err)
	return reply
}

// elapsed returns how long the run has taken.
func (s *sim) elapsed() time.Duration { return s.now.Sub(epoch) }
