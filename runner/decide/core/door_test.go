package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"crew/runner/decide/task"
)

// door is a run to which anything may happen, with checks of what must always hold.
type door struct {
	*sim
	rt     *rapid.T
	cfg    Config
	policy string
	makes  bool
	fed    bool

	stopped   bool // nothing may start: the run is paused, suspended or ending
	suspended bool // it was suspended at some time
	failures  map[uint64]int
	latest    map[uint64]task.Outcome // of each task's latest attempt
	again     map[uint64]time.Time    // earliest start of each task's next attempt
	cancelled map[uint64]bool         // tasks that were cancelled while they waited
}

func (d *door) intn(n int) int { return rapid.IntRange(0, n-1).Draw(d.rt, "n") }

func (d *door) oneIn(in int) bool { return d.intn(in) == 0 }

func (d *door) seconds(n int) time.Duration { return time.Duration(d.intn(2*n)) * time.Second / 2 }

func (d *door) id() uint64 {
	return rapid.Uint64Range(1, max(d.core.input.lastID.Load(), 1)).Draw(d.rt, "id")
}

// configure combines random features.
func (d *door) configure() {
	cfg := config(1 + d.intn(4))
	d.policy = rapid.SampledFrom([]string{"fifo", "keyed", "longest-first", "round-robin", "least-busy", "fair", "topic:auto"}).Draw(d.rt, "policy")
	cfg.Queue.Policy, cfg.Queue.Buffer, cfg.Queue.Terms = policy(d.policy), 1+d.intn(20), true
	cfg.Queue.PerKey = max(0, d.intn(6)-3)
	cfg.Queue.Caps = []task.Cap{{Name: "db", Units: []string{"0"}}, {Name: "gpu", Units: []string{"x", "y"}}}
	cfg.Pool.Window = 1 + d.intn(2)
	cfg.Retry = Retry{Max: d.intn(3), Delay: 2 * time.Second, MaxDelay: 3 * time.Second, Jitter: func() float64 { return 1 }}
	if d.oneIn(4) {
		cfg.Pool.Machine = Machine{Load: float64(d.intn(6)), Memory: int64(d.intn(2) * 100), End: d.oneIn(2)}
	}
	if d.fed, d.makes = d.oneIn(2), d.oneIn(2); d.fed {
		cfg.Feed = Feed{Open: true, Remember: true}
	} else if d.oneIn(2) {
		cfg.Order = Order{Keep: true, Window: 1 + d.intn(10)}
	}
	if d.oneIn(4) {
		cfg.Halt = Halt{When: []When{Soon, Now, Pause}[d.intn(3)], On: []On{OnFail, OnSuccess, OnDone}[d.intn(3)], N: 1 + d.intn(8)}
	}
	d.cfg = cfg
}

// task completes a task with random terms.
func (d *door) task(t *task.Task) {
	t.Key, t.Cost = string(rune('a'+d.intn(3))), int64(1+d.intn(5))
	if d.makes {
		t.Makes = making(0, "", fmt.Sprint(t.ID%5), fmt.Sprint(t.ID%7)).Makes
		if !d.fed { // each target only once
			t.Makes = making(0, "", fmt.Sprint(t.ID)).Makes
		}
	}
	if !d.oneIn(3) {
		return
	}
	terms := &task.Terms{Priority: d.intn(3) - 1}
	if d.policy != "keyed" && d.policy != "topic:auto" {
		terms.Weight = d.intn(4)
	}
	if d.oneIn(3) {
		terms.Needs, _ = task.ParseNeeds([]string{"db", "gpu", "gpu:2", "db,gpu"}[d.intn(4)])
	}
	if d.fed && d.oneIn(2) {
		terms.At, terms.Held = d.now.Add(d.seconds(60)), d.oneIn(2)
	}
	if t.ID > 1 && d.fed && (d.makes || d.policy != "keyed") && d.oneIn(2) {
		for _, list := range []*[]uint64{&terms.After, &terms.AfterAny} {
			*list = rapid.SliceOfN(rapid.Uint64Range(1, t.ID-1), 0, 2).Draw(d.rt, "after")
		}
	}
	t.Asked = terms
}

// checkBegin checks an attempt that begins.
func (d *door) checkBegin(a task.Attempt) (time.Duration, task.Outcome) {
	id := a.Task.ID
	require.False(d.t, d.stopped, "task %d begins", id)
	require.False(d.t, d.now.Before(d.again[id]), "task %d is retried too early", id)
	for _, before := range a.Task.Terms().After {
		require.True(d.t, d.latest[before].Succeeded(), "task %d before %d", id, before)
	}
	for _, before := range a.Task.Terms().AfterAny {
		require.Contains(d.t, d.finished, before, "task %d ends before %d", before, id)
	}
	var key, slot int
	units := slices.Clone(a.Units)
	for _, r := range d.running {
		if r.Task.Key == a.Task.Key {
			key++
		}
		if r.Slot.ID == a.Slot.ID {
			slot++
		}
		units = append(units, r.Units...)
		require.False(d.t, d.makes && a.Task.Makes.Targets[0] == r.Task.Makes.Targets[0], "two make one file")
	}
	require.Less(d.t, slot, a.Slot.Cap)
	require.True(d.t, d.cfg.Queue.PerKey == 0 || d.policy == "keyed" || key < d.cfg.Queue.PerKey, "%d of a key", key+1)
	names := map[string]bool{}
	for _, u := range units {
		for _, name := range u.Held {
			require.False(d.t, names[u.Name+name], "%s %s twice", u.Name, name)
			names[u.Name+name] = true
		}
	}
	require.Len(d.t, a.Units, len(a.Task.Terms().Needs))
	if d.policy == "keyed" {
		require.Zero(d.t, key, "two of a key at once")
		for other, e := range d.core.entries {
			first := other < id && e.task.Key == a.Task.Key && e.task.Terms().Rank == 0 && a.Task.Terms().Rank == 0
			require.False(d.t, first && (e.state == queued || e.state == parked || e.state == delayed), "task %d before %d", id, other)
		}
	}
	return d.seconds(6), []task.Outcome{task.OK, task.OK, task.OK, task.Exit}[d.intn(4)]
}

// noteEnd notes how an attempt ended.
func (d *door) noteEnd(r *task.Result) {
	id := r.Task.ID
	d.latest[id] = r.Outcome
	if r.Outcome == task.Exit {
		if d.failures[id]++; d.failures[id] <= d.cfg.Retry.Max {
			d.again[id] = d.now.Add([]time.Duration{2, 3}[d.failures[id]-1] * time.Second)
		}
		require.LessOrEqual(d.t, d.failures[id], 1+d.cfg.Retry.Max, "attempts that failed")
	}
}

// checkInvariants checks the invariants between steps.
func (d *door) checkInvariants() {
	if d.over {
		return
	}
	now := d.core.snapshot()
	d.stopped = now.State != task.StateRunning && now.State != task.StateFinishing || d.core.time.Stopped()
	waits, groups := 0, 0
	for id, e := range d.core.entries {
		where := d.core.describeTask(id)
		require.Equal(d.t, e.state.isWaiting(), where.Blocking != nil)
		if e.state.isWaiting() {
			waits++
		}
		terms := e.task.Terms()
		for _, before := range terms.Awaited() {
			b := d.core.entries[before]
			require.True(d.t, b == nil || b.item.Rank <= max(e.item.Rank, -maxTurnRank) || b.task.Terms().Rank != 0, "task %d lends to %d", id, before)
		}
	}
	for _, b := range now.Waiting {
		if b.By != task.ByOrder {
			groups += b.Tasks
		}
		require.NotEmpty(d.t, b.Text(d.now))
	}
	require.Equal(d.t, waits, groups, "%v", now.Waiting)
	require.EqualValues(d.t, now.Stats.Admitted, int(now.Stats.Finished())+len(d.core.entries))
	if waits > 0 && d.cfg.Pool.Machine == (Machine{}) {
		require.NotNil(d.t, now.Blocking, "no reason: %v", now.Waiting)
		shared := d.policy != "keyed" && d.policy != "round-robin" && d.policy != "topic:auto"
		require.False(d.t, shared && now.Blocking.By == task.BySlots && d.core.freePlaces() > 0, "a slot is free: %v", now.Waiting)
	}
	if w := d.cfg.Order; w.Keep {
		require.LessOrEqual(d.t, int(now.Stats.Admitted-now.Stats.Released), w.Window)
	}
}

// act gives the run a command, and lets time pass.
func (d *door) act() {
	id, key, n := d.id(), string(rune('a'+d.intn(3))), d.intn(6)
	slots := d.core.snapshot().Slots
	cmd := rapid.SampledFrom([]task.Command{
		{Op: task.Add}, {Op: task.Add}, {Op: task.Add}, {Op: task.Add}, {Op: task.Resize, N: 1 + n}, {Op: task.Pause}, {Op: task.Resume}, {Op: task.Resume},
		{Op: task.Suspend}, {Op: task.Continue}, {Op: task.Continue}, {Op: task.Cancel, IDs: []uint64{id}, Kill: n > 2}, {Op: task.Cancel, Key: key}, {Op: task.Retry, IDs: []uint64{id}},
		{Op: task.Hold, IDs: []uint64{id, id / 2}}, {Op: task.Release, IDs: []uint64{id}}, {Op: task.Move, N: n - 3, IDs: []uint64{id, id / 2}},
		{Op: task.Join, N: 1, Slot: task.Slot{Host: "far", Cap: 1 + n/2}}, {Op: task.Leave, N: slots[len(slots)-1].ID},
	}).Draw(d.rt, "command")
	waiting := map[uint64]bool{}
	switch cmd.Op {
	case task.Add:
		cmd.Tasks = numbered(d.core.input.lastID.Load() + 1)
		if d.task(cmd.Tasks[0]); !d.fed {
			return
		}
	case task.Resume, task.Continue:
		d.stopped = false
	case task.Suspend:
		d.suspended = true
	case task.Cancel:
		for id, e := range d.core.entries {
			waiting[id] = e.state.isWaiting()
		}
	case task.Retry:
		delete(d.again, id)
	case task.Leave:
		if d.die("far"); slots[len(slots)-1].Host == "" {
			return
		}
	}
	for _, id := range d.try(cmd).IDs {
		d.cancelled[id] = d.cancelled[id] || waiting[id]
	}
	if d.Slow = d.oneIn(8); d.oneIn(2) {
		d.checkInvariants()
		d.sleep(d.seconds(3))
	}
	d.checkInvariants()
}

// finish ends the run, and checks its totals.
func (d *door) finish() {
	d.Slow, d.stopped = false, false
	d.try(task.Command{Op: task.Continue})
	for range 2 { // a held task may then wait for its time
		d.try(task.Command{Op: task.Release, IDs: d.try(task.Command{Op: task.Find, All: true}).IDs})
	}
	d.try(task.Command{Op: task.Resume})
	ops := [][]task.Op{{task.StopReading}, {task.Drain}, {task.Drain, task.Stop}, {task.Stop, task.Kill}}[d.intn(4)]
	if !d.fed && d.oneIn(2) {
		ops = nil
	}
	for _, op := range ops {
		d.try(task.Command{Op: op})
		d.stopped = op != task.StopReading
	}
	for !d.over { // resume a run that Config.Halt has paused
		if d.core.queue.halted && d.try(task.Command{Op: task.Resume}).Err == nil {
			continue
		}
		at, ok := d.next()
		require.True(d.t, ok && d.elapsed() < 10*time.Hour, "nothing will ever happen: %+v %+v", d.core.blocking(), d.cfg)
		d.sleep(max(0, at.Sub(d.now)))
	}
	end := d.core.Ending()
	stats, released := task.Stats{}, uint64(1)
	for _, e := range d.events {
		stats.Apply(&e)
		if e.Kind == task.Released && d.cfg.Order.Keep {
			require.Equal(d.t, released, e.ID)
			released = e.Last + 1
		}
	}
	require.Equal(d.t, stats, end.Stats)
	require.EqualValues(d.t, end.Stats.Admitted, len(d.finished))
	require.EqualValues(d.t, end.Stats.Admitted, end.Stats.Released)
	accepted := d.fed && len(ops) == 1 // no task was refused because the run was done
	require.True(d.t, !accepted || int(d.core.input.lastID.Load()) == len(d.finished), "a task is lost")
	for id, o := range d.finished {
		require.True(d.t, !d.cancelled[id] || o == task.Cancelled, "task %d: %v", id, o)
		require.Equal(d.t, d.latest[id] == task.OK, o == task.OK, "task %d: %v after %v", id, o, d.latest[id])
		require.True(d.t, o != task.Exit || d.failures[id] == 1+d.cfg.Retry.Max || len(ops) > 0 || d.fed, "task %d: not retried", id)
	}
	q := &d.core.queue
	require.True(d.t, !d.fed || len(q.makers) == 0)
	require.Empty(d.t, q.caps.held)
	require.Zero(d.t, d.core.pool.running+d.core.pool.machine.running+d.core.pool.tokens.busy+q.ready.Held())
}

// TestDoor checks that the invariants hold whatever happens in whatever order.
func TestDoor(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		d := &door{
			rt: rt, failures: map[uint64]int{}, latest: map[uint64]task.Outcome{}, again: map[uint64]time.Time{},
			cancelled: map[uint64]bool{},
		}
		d.configure()
		n := 0
		if !d.fed {
			n = d.intn(60)
		}
		d.sim = simulate(t, d.cfg, n, func(s *sim) {
			d.sim = s
			s.Open, s.change, s.do, s.result = d.fed, d.task, d.checkBegin, d.noteEnd
			s.Grace = d.seconds(8)
			s.figures = func() (float64, int64) { return float64(d.intn(12)), int64(d.intn(400)) }
			s.check = func(tk *task.Task) *task.Result {
				for id, e := range s.core.entries {
					refused := e.state == decided && e.slot == nil
					require.False(t, d.policy == "keyed" && id < tk.ID && e.task.Key == tk.Key && !refused, "task %d is checked while %d is unfinished", tk.ID, id)
				}
				if tk.ID%4 > 0 {
					return nil
				}
				d.latest[tk.ID] = task.Skipped
				return skipped(tk)
			}
		})
		for range d.intn(50) {
			if !d.over {
				d.act()
			}
		}
		d.finish()
	})
}
