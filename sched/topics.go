package sched

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxTopicWorkers bounds what a topic may ask for, so that sums and products
// of such numbers stay far from overflow.
const maxTopicWorkers = 1 << 20

// Topic is a key with workers of its own.
type Topic struct {
	Key     uint64 // Hash of its name
	Workers int    // at least 1
}

// Topics says which keys have workers of their own. With Auto every key seen
// gets one, and List and Rest are empty.
type Topics struct {
	Auto bool
	List []Topic
	Rest int // workers for all other keys; with 0 there are none, and other keys are refused
}

// ParseTopics reads a list such as "mail=2,db=1,*=5", or "auto". A name may
// hold any bytes but a comma, at least one; what stands after its last "=" is
// the number of its workers.
func ParseTopics(s string) (Topics, error) {
	if s == "auto" {
		return Topics{Auto: true}, nil
	}
	var t Topics
	for part := range strings.SplitSeq(s, ",") {
		i := strings.LastIndexByte(part, '=')
		if i < 1 {
			return Topics{}, errors.New("write auto, or each topic once with its workers: mail=2,db=1,*=5")
		}
		name := part[:i]
		n, err := strconv.Atoi(part[i+1:])
		switch {
		case err != nil || n < 1 || n > maxTopicWorkers:
			return Topics{}, fmt.Errorf("topic %q: %q is no number of workers from 1 to %d", name, part[i+1:], maxTopicWorkers)
		case name == "*" && t.Rest > 0 || slices.ContainsFunc(t.List, func(o Topic) bool { return o.Key == Hash(name) }):
			return Topics{}, fmt.Errorf("topic %q stands there twice", name)
		case name == "*":
			t.Rest = n
		default:
			t.List = append(t.List, Topic{Key: Hash(name), Workers: n})
		}
	}
	return t, nil
}

// Validate says what is wrong with t, if anything is.
func (t Topics) Validate() error {
	if t.Auto {
		if len(t.List) > 0 || t.Rest != 0 {
			return errors.New("topics are either automatic or listed")
		}
		return nil
	}
	if t.Rest < 0 || t.Rest > maxTopicWorkers {
		return fmt.Errorf("%d workers for the rest of the topics", t.Rest)
	}
	if len(t.List) == 0 && t.Rest == 0 {
		return errors.New("no topics")
	}
	seen := make(map[uint64]bool, len(t.List))
	for _, o := range t.List {
		if o.Workers < 1 || o.Workers > maxTopicWorkers {
			return fmt.Errorf("%d workers for a topic", o.Workers)
		}
		if seen[o.Key] {
			return errors.New("a topic stands there twice")
		}
		seen[o.Key] = true
	}
	return nil
}

// Workers is how many workers the topics ask for together; 0 with Auto.
func (t Topics) Workers() int {
	n := t.Rest
	for _, o := range t.List {
		n += o.Workers
	}
	return n
}
