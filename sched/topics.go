package sched

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxTopicWorkers bounds what a topic may ask for, so that sums and products of
// such numbers do not overflow.
const maxTopicWorkers = 1 << 20

// Topic is a key with slots of its own.
type Topic struct {
	Key     uint64 // Hash of its name
	Workers int    // how many slots it asks for; at least 1
}

// Topics says which keys have slots of their own. With Auto every key seen has
// some, and List and Rest are empty.
type Topics struct {
	Auto bool
	List []Topic
	Rest int // slots for all other keys; if 0, other keys are refused
}

// ParseTopics parses a list such as "mail=2,db=1,*=5", or "auto". A name is one
// or more bytes other than a comma; the number of its slots follows its last
// "=".
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

// Workers is how many slots the topics ask for together; 0 with Auto.
func (t Topics) Workers() int {
	n := t.Rest
	for _, o := range t.List {
		n += o.Workers
	}
	return n
}
