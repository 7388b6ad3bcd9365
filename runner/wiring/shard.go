package wiring

import (
	"maps"
	"slices"
	"strings"
	"time"

	"crew/runner/cli"
	"crew/runner/task"
	"crew/sched"
)

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
