package sched

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxTopicWorkers bounds the number of workers of a topic, so sums and products
// of such numbers do not overflow.
const maxTopicWorkers = 1 << 20

// Topic is a key with slots of its own.
type Topic struct {
	Key     uint64 // Hash of its name
	Workers int    // the number of slots it asks for; at least 1
}

// Topics says which keys have slots of their own. With Auto, every key seen has
// some, and List and Rest are empty.
type Topics struct {
	Auto bool
	List []Topic
	Rest int // slots for all other keys; if 0, other keys are refused
}

// ParseTopics parses "auto" or a list such as "mail=2,db=1,*=5". A name is one or
// more bytes other than a comma. The last "=" separates it from its number of
// slots.
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
		name, workers := part[:i], part[i+1:]
		n, err := strconv.Atoi(workers)
		switch {
		case err != nil || n < 1 || n > maxTopicWorkers:
			return Topics{}, fmt.Errorf("topic %q: %q is not a number of workers from 1 to %d", name, workers, maxTopicWorkers)
		case name == "*" && t.Rest > 0 || slices.ContainsFunc(t.List, func(o Topic) bool { return o.Key == Hash(name) }):
			return Topics{}, fmt.Errorf("topic %q is listed twice", name)
		case name == "*":
			t.Rest = n
		default:
			t.List = append(t.List, Topic{Key: Hash(name), Workers: n})
		}
	}
	return t, nil
}

// Workers returns how many slots the topics ask for together; 0 with Auto.
func (t Topics) Workers() int {
	n := t.Rest
	for _, o := range t.List {
		n += o.Workers
	}
	return n
}
