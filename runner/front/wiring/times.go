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

// times holds how long commands took in earlier runs. It is safe for concurrent use.
type times struct {
	history.Times
	matched atomic.Bool // whether the time of some task of this run was found
}

// openTimes reads the files of --times. It returns nil without --times. It must be called only once,
// because a file can be a pipe.
func openTimes(o *cli.Options) (*times, error) {
	if len(o.Input.Times) == 0 {
		return nil, nil
	}
	t := &times{}
	for _, path := range o.Input.Times {
		if err := t.Add(path); err != nil {
			return nil, misuse(err.Error(), "give the joblog, --json output or --state directory of an earlier run, or an empty file at first")
		}
	}
	return t, nil
}

// lookup is Times.Of. It records whether a time was found.
func (t *times) lookup(tk *task.Task) (key string, took time.Duration, ok bool) {
	if key, took, ok = t.Of(tk); ok {
		t.matched.Store(true)
	}
	return key, took, ok
}

// notes returns a message if no time was useful to a run that had tasks.
func (t *times) notes(o *cli.Options) []string {
	kept := o.State.Dir != "" && o.Input.Shard.Of == 0 // the journal may have had all times
	if t == nil || t.Len() == 0 || t.matched.Load() || kept || o.Silent() {
		return nil
	}
	so := "times do not decide the shares"
	if o.Input.Shard.Of == 0 {
		so = "no task is known to take longer than others"
	}
	return []string{"no command of this run has a time in " + strings.Join(o.Input.Times, " or ") + ", so " + so + ": give the joblog or state of a run with the same command"}
}

// setCost sets the cost of a task to the time of its command, unless the task has a cost or the journal
// knows its time. As in the journal, a task without a known time costs more than any other.
func (t *times) setCost(tk *task.Task) {
	if tk.Cost != 0 && tk.Cost != math.MaxInt64 {
		return
	}
	tk.Cost = math.MaxInt64
	if _, took, ok := t.lookup(tk); ok {
		tk.Cost = took.Microseconds()
	}
}

// completingSource is a Source that calls complete for each task.
type completingSource struct {
	runner.Source
	complete func(*task.Task)
}

// Next returns the next task. See runner.Source.
func (s completingSource) Next(number func() uint64) (*task.Task, error) {
	t, err := s.Source.Next(number)
	if err == nil {
		s.complete(t)
	}
	return t, err
}

// Buffered reports whether Next returns at once. See runner.Source.
func (s completingSource) Buffered() bool {
	b, ok := s.Source.(interface{ Buffered() bool })
	return ok && b.Buffered()
}

// share decides which records the run takes, for --shard. It does not change.
type share struct {
	cli.Shard
	keyed bool
	times *times
	mine  map[string]bool // for each key of times, whether it is in this share
}

// openShare returns the share of --shard, or nil without --shard. known may be nil.
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
	s.mine = make(map[string]bool, len(commands))
	for i, at := range sched.Deal(costs, s.Of) {
		s.mine[commands[i]] = at == s.Number-1
	}
	return s
}

// begin returns a function that reports, for one record of the input after another, whether the run takes it.
// It gets a task made of the record.
func (s *share) begin() func(*task.Task) bool {
	next := 0 // the share of the next record that is dealt by its position
	return func(t *task.Task) bool {
		by := t.Key
		if by == "" && !s.keyed {
			if s.times != nil {
				if key, _, ok := s.times.lookup(t); ok {
					return s.mine[key]
				}
			}
			if !s.Hash {
				next = next%s.Of + 1
				return next == s.Number
			}
			if by = t.Object; by == "" && len(t.Records) > 0 {
				by = strings.Join(t.Records[0], "\x00")
			}
		}
		return sched.Bucket(by, s.Of) == s.Number-1
	}
}
