package cli

import (
	"errors"
	"math"
	"strings"

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

// share returns what reports whether the run takes the record of a task; nil if it takes
// all.
func (o *Options) share() func(*task.Task) bool {
	s, keyed := o.Input.Shard, o.Sched.Key != ""
	if s.Of == 0 {
		return nil
	}
	return func(t *task.Task) bool {
		by := t.Key
		if by == "" && !keyed {
			by = recordText(t)
		}
		return sched.Bucket(by, s.Of) == s.Number-1
	}
}

// recordText returns the text of a task's record: an object, or the columns.
func recordText(t *task.Task) string {
	if t.Object != "" || len(t.Records) == 0 {
		return t.Object
	}
	return strings.Join(t.Records[0], "\x00")
}

// numberedShare refuses a key that goes by the number of a task, which has none before it
// is known to be in the share.
func numberedShare(o *Options) *refusal {
	u, key := o.given("shard"), o.given("key")
	if u == nil || key == nil || o.Command.Replace == "{#}" || !strings.Contains(o.Sched.Key, "{#}") {
		return nil
	}
	return &refusal{usageError{
		key.String() + " cannot hold {#} with --shard", "a task gets its number after its share is known: take the key from the record",
	}, []*use{key, u}}
}
