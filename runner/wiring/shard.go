package wiring

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"crew/runner/cli"
	"crew/runner/sink"
	"crew/runner/task"
	"crew/sched"
)

// share says which records the run takes. It is safe for concurrent use.
type share struct {
	cli.Shard
	keyed bool
	known map[string]bool // commands whose times are known: whether they are in this share
	met   atomic.Bool     // one of them
}

// openShare returns the share of --shard, or nil for all records. It reads the file of
// --shard-times, which can be a pipe, so it is called once.
func openShare(o *cli.Options) (*share, error) {
	if o.Input.Shard.Of == 0 {
		return nil, nil
	}
	s := &share{Shard: o.Input.Shard, keyed: o.Sched.Key != ""}
	path := o.Input.ShardTimes
	if path == "" {
		return s, nil
	}
	times, err := sink.Runtimes(path)
	if err != nil {
		return nil, misuse("read the times in "+path+": "+task.WithoutPath(err).Error(),
			"give a joblog of earlier runs, or at first an empty file")
	}
	commands := slices.Sorted(maps.Keys(times))
	costs := make([]int64, len(commands))
	for i, c := range commands {
		costs[i] = times[c]
	}
	s.known = make(map[string]bool, len(commands))
	for i, at := range sched.Deal(costs, s.Of) {
		s.known[commands[i]] = at == s.Number-1
	}
	return s, nil
}

// has reports whether the run takes the record of a task.
func (s *share) has(t *task.Task) bool {
	by := t.Key
	if by == "" && !s.keyed {
		if s.known != nil {
			if mine, ok := s.known[t.CommandLine(t.Argv)]; ok {
				s.met.Store(true)
				return mine
			}
		}
		if by = t.Object; by == "" && len(t.Records) > 0 {
			by = strings.Join(t.Records[0], "\x00")
		}
	}
	return sched.Bucket(by, s.Of) == s.Number-1
}

// notes returns what to say about the share of a run with tasks.
func (s *share) notes(o *cli.Options) (lines []string) {
	if s != nil && len(s.known) > 0 && !s.met.Load() && !o.Silent() {
		lines = append(lines, o.Input.ShardTimes+" has the time of no command of this run, so a hash says what is in which share: "+
			"give the joblog of a run with the same command")
	}
	return lines
}
