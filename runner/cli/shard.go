package cli

import (
	"errors"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"crew/runner/sink"
	"crew/runner/task"
	"crew/sched"
)

// parseShard parses K/N.
func parseShard(s string) (Shard, error) {
	k, n, _ := strings.Cut(s, "/")
	of, err := parseWhole(n, 1, math.MaxInt32)
	number, err2 := parseWhole(k, 1, max(1, of))
	if err != nil || err2 != nil {
		return Shard{}, errors.New("write K/N, such as 2/4 for the second of four shares; K is from 1 to N")
	}
	return Shard{number, of}, nil
}

// share says which records the run takes. It is safe for concurrent use.
type share struct {
	Shard
	keyed bool
	known map[string]bool // commands whose times are known: whether they are in this share
	met   atomic.Bool     // one of them
}

// openShare sets o.share, for which it reads the file of --shard-times once: that can be
// a pipe.
func (o *Options) openShare() error {
	path := o.Input.ShardTimes
	if o.Input.Shard.Of == 0 || o.share != nil {
		return nil
	}
	o.share = &share{Shard: o.Input.Shard, keyed: o.Sched.Key != ""}
	if path == "" {
		return nil
	}
	times, err := sink.Runtimes(path)
	if err != nil {
		return &usageError{
			"read the times in " + path + ": " + task.WithoutPath(err).Error(), "give a joblog of earlier runs, or at first an empty file",
		}
	}
	commands := slices.Sorted(maps.Keys(times))
	costs := make([]int64, len(commands))
	for i, c := range commands {
		costs[i] = times[c]
	}
	o.share.known = make(map[string]bool, len(commands))
	for i, at := range sched.Deal(costs, o.share.Of) {
		o.share.known[commands[i]] = at == o.share.Number-1
	}
	return nil
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
		by = recordText(t)
	}
	return sched.Bucket(by, s.Of) == s.Number-1
}

// recordText returns the text of a task's record: an object, or the columns.
func recordText(t *task.Task) string {
	if t.Object != "" || len(t.Records) == 0 {
		return t.Object
	}
	return strings.Join(t.Records[0], "\x00")
}

// notes returns what to say about the share of a run with tasks.
func (s *share) notes(o *Options) (lines []string) {
	if s != nil && len(s.known) > 0 && !s.met.Load() && !o.silent() {
		lines = append(lines, o.Input.ShardTimes+" has the time of no command of this run, so a hash says what is in which share: "+
			"give the joblog of a run with the same command")
	}
	return lines
}

// unsharable refuses what cannot be known of a record before it is known to be in the
// share.
func unsharable(o *Options) *refusal {
	u, times, key := o.given("shard"), o.given("shard-times"), o.given("key")
	holds := func(words []string, placeholder string) bool {
		return o.Command.Replace != placeholder && anyContains(words, placeholder)
	}
	if u != nil && key != nil && holds([]string{o.Sched.Key}, "{#}") {
		return refuse(key.String()+" cannot hold {#} with --shard",
			"a task gets its number after its share is known: take the key from the record", key, u)
	}
	for _, v := range [...]struct{ placeholder, variable string }{{"{#}", "$CREW_SEQ"}, {"{%}", "$CREW_WORKER"}} {
		if times != nil && holds(o.words(), v.placeholder) {
			return refuse(times.String()+" cannot know commands with "+v.placeholder,
				"they differ from run to run: have a shell expand "+v.variable+" instead", times)
		}
	}
	if joblog := o.given("joblog"); times != nil && joblog != nil && filepath.Clean(times.value) == filepath.Clean(strings.TrimPrefix(joblog.value, "+")) {
		return refuse("--shard-times and --joblog name the same file",
			"all shares read the same times and each writes its own log: put the logs together when all have ended", times, joblog)
	}
	return nil
}
