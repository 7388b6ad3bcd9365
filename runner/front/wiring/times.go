package wiring

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"crew/runner"
	"crew/runner/decide/task"
	"crew/runner/front/cli"
	"crew/runner/show/history"
	"crew/sched"
)

// times says how long commands took in earlier runs. It is safe for concurrent use.
type times struct {
	history.Times
	met atomic.Bool // the command of a task is one of them
}

// openTimes reads what --times names, or returns nil. That can be a pipe, so it is called once.
func openTimes(o *cli.Options) (*times, error) {
	if len(o.Input.Times) == 0 {
		return nil, nil
	}
	t := &times{}
	for _, path := range o.Input.Times {
		if err := t.Add(path); err != nil {
			return nil, misuse(err.Error(), "give what an earlier run left, or at first an empty file")
		}
	}
	return t, nil
}

// of is Of, and notes that a time was known.
func (t *times) of(tk *task.Task) (key string, took time.Duration, ok bool) {
	if key, took, ok = t.Of(tk); ok {
		t.met.Store(true)
	}
	return key, took, ok
}

// notes returns what to say about the times at the end of a run with tasks.
func (t *times) notes(o *cli.Options) []string {
	kept := o.State.Dir != "" && o.Input.Shard.Of == 0 // which may know all that was asked
	if t == nil || t.Len() == 0 || t.met.Load() || kept || o.Silent() {
		return nil
	}
	so := "a hash says what is in which share"
	if o.Input.Shard.Of == 0 {
		so = "none is known to be longer than others"
	}
	return []string{"no command of this run has a time in " + strings.Join(o.Input.Times, " or ") + ", so " + so + ": give what a run with the same command left"}
}

// price has a task cost the time of its command, unless it has a cost or the journal knows its time. As
// there, a task costs more than any other if its time is unknown.
func (t *times) price(tk *task.Task) {
	if tk.Cost != 0 && tk.Cost != math.MaxInt64 {
		return
	}
	tk.Cost = math.MaxInt64
	if _, took, ok := t.of(tk); ok {
		tk.Cost = took.Microseconds()
	}
}

// completed is a source whose tasks are completed here.
type completed struct {
	runner.Source
	complete func(*task.Task)
}

// Next returns the next task. See runner.Source.
func (s completed) Next(number func() uint64) (*task.Task, error) {
	t, err := s.Source.Next(number)
	if err == nil {
		s.complete(t)
	}
	return t, err
}

// Buffered reports whether Next returns at once. See runner.Source.
func (s completed) Buffered() bool {
	b, ok := s.Source.(interface{ Buffered() bool })
	return ok && b.Buffered()
}

// share says which records the run takes. It is safe for concurrent use.
type share struct {
	cli.Shard
	keyed bool
	times *times
	known map[string]bool // what the times are known by: whether it is in this share
}

// openShare returns the share of --shard, or nil for all records. known are the times of
// commands, or nil.
func openShare(o *cli.Options, known *times) *share {
	if o.Input.Shard.Of == 0 {
		return nil
	}
	s := &share{Shard: o.Input.Shard, keyed: o.Sched.Key != "", times: known}
	if known == nil {
		return s
	}
	took := maps.Collect(known.All())
	commands := slices.Sorted(maps.Keys(took))
	costs := make([]int64, len(commands))
	for i, c := range commands {
		costs[i] = int64(took[c] / time.Microsecond)
	}
	s.known = make(map[string]bool, len(commands))
	for i, at := range sched.Deal(costs, s.Of) {
		s.known[commands[i]] = at == s.Number-1
	}
	return s
}

// has reports whether the run takes the record of a task.
func (s *share) has(t *task.Task) bool {
	by := t.Key
	if by == "" && !s.keyed {
		if s.times != nil {
			if key, _, ok := s.times.of(t); ok {
				return s.known[key]
			}
		}
		if by = t.Object; by == "" && len(t.Records) > 0 {
			by = strings.Join(t.Records[0], "\x00")
		}
	}
	return sched.Bucket(by, s.Of) == s.Number-1
}
