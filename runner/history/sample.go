package history

import (
	"container/heap"
	"math"
	"slices"
	"strings"

	"crew/runner/task"
)

const labelSize = 120 // bytes of a command or key in the timeline

// attemptOf returns the attempt of a line.
func attemptOf(run int, l *Line) Attempt {
	a := Attempt{
		Run: int32(run), Number: int32(l.Attempt), worker: int32(l.Worker), Lane: -1, Task: l.Task, Took: -1, Waited: -1,
		host: string(l.Host), Key: task.Shorten(string(l.Key), labelSize), Command: task.Shorten(string(l.Command), labelSize),
		Code: int32(l.Signal), ran: !l.Start.IsZero(),
	}
	if l.Exit != nil {
		a.Code = int32(*l.Exit)
	}
	a.Start = l.At.UnixNano()
	if a.ran {
		a.Start = l.Start.UnixNano()
	}
	return a
}

// own gives an attempt strings of its own, since the line's may be parts of longer ones.
func (a *Attempt) own() {
	a.host, a.Key, a.Command = strings.Clone(a.host), strings.Clone(a.Key), strings.Clone(a.Command)
}

// hash returns a number that depends on what the attempt is alone (the finalizer of
// splitmix64).
func (a *Attempt) hash() uint64 {
	x := (a.Task<<8 + uint64(a.Number) + uint64(a.Start)) * 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// sample has the attempts whose hash is below a limit. The limit is lowered when there are
// too many, so the sample is even.
type sample struct {
	list  []Attempt
	limit uint64
}

func (s *sample) add(a Attempt) bool {
	if a.hash() >= s.limit {
		return false
	}
	a.own()
	s.list = append(s.list, a)
	return true
}

// thin drops about an eighth, and returns how many.
func (s *sample) thin() int64 {
	s.limit -= min(s.limit, s.limit/8+1)
	was, kept := len(s.list), s.list[:0]
	for _, a := range s.list {
		if a.hash() < s.limit {
			kept = append(kept, a)
		}
	}
	clear(s.list[len(kept):])
	s.list = kept
	return int64(was - len(kept))
}

// timeline has some of the attempts: failures, the longest, and a sample of the others.
// Failures are sampled if they are more than half of all.
type timeline struct {
	most           int
	failed, others sample
	longest        longest
	more           int64
}

func newTimeline(most int) *timeline {
	return &timeline{most: most, failed: sample{limit: math.MaxUint64}, others: sample{limit: math.MaxUint64}}
}

func (t *timeline) add(a Attempt) {
	switch {
	case a.Outcome.Failed() || a.Took < 0:
		t.keep(&t.failed, a)
	case len(t.longest) < t.most/10:
		a.own()
		heap.Push(&t.longest, a)
	case t.longest[0].shorter(&a):
		a.own()
		a, t.longest[0] = t.longest[0], a
		heap.Fix(&t.longest, 0)
		t.keep(&t.others, a)
	default:
		t.keep(&t.others, a)
	}
	for len(t.failed.list)+len(t.others.list)+len(t.longest) > t.most {
		s := &t.others
		if len(t.failed.list) > t.most/2 {
			s = &t.failed
		}
		t.more += s.thin()
	}
}

func (t *timeline) keep(s *sample, a Attempt) {
	if !s.add(a) {
		t.more++
	}
}

// all returns a copy of the attempts, in no order.
func (t *timeline) all() []Attempt {
	return slices.Concat(t.failed.list, t.longest, t.others.list)
}

// shorter compares how long attempts took and, so that not all are from the beginning of
// the run if they took the same, their hashes.
func (a *Attempt) shorter(b *Attempt) bool {
	return a.Took < b.Took || a.Took == b.Took && a.hash() < b.hash()
}

// longest is a heap whose first attempt is the shortest.
type longest []Attempt

func (h longest) Len() int           { return len(h) }
func (h longest) Less(i, j int) bool { return h[i].shorter(&h[j]) }
func (h longest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *longest) Push(x any)        { *h = append(*h, x.(Attempt)) }
func (h *longest) Pop() any          { panic("internal error: the longest are replaced") }
