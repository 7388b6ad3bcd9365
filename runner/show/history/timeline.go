package history

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

const labelSize = 240 // bytes of a command or key in the timeline

// attemptOf returns the attempt that a line is about.
func attemptOf(run int, l *Line) Attempt {
	a := Attempt{
		Run: int32(run), Number: int32(l.Attempt), Worker: int32(l.Worker), Lane: -1, Task: l.Task, Took: -1, Waited: -1,
		Host: label(l.Host), Key: label(l.Key), Command: label(l.Command),
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

// label returns a copy of s, cut to labelSize. The copy does not keep a longer text alive.
func label(s task.Bytes) string { return strings.Clone(task.Shorten(string(s), labelSize)) }

// hash returns a hash of the attempt's identity.
func (a *Attempt) hash() uint64 {
	return rand.NewPCG(uint64(a.Start), a.Task<<8+uint64(a.Number)).Uint64()
}

// timeline is a bounded sample of attempts: the failures, the longest, and an even sample of the
// others. Failures are sampled, too, if they fill more than half of it.
type timeline struct {
	most int
	list []Attempt
	more int64 // attempts that were left out

	// The thresholds, which get stricter each time the sample is full.

	failed, others uint64 // failures and other attempts with a lower hash are kept
	long           int64  // other attempts that took longer are kept, too
}

func newTimeline(most int) *timeline {
	return &timeline{most: most, failed: math.MaxUint64, others: math.MaxUint64}
}

func (t *timeline) add(a Attempt) {
	if !t.keeps(&a) {
		t.more++
		return
	}
	for t.list = append(t.list, a); len(t.list) > t.most; {
		t.dropSome()
	}
}

// isNotable reports whether an attempt failed or its end is unknown.
func (a *Attempt) isNotable() bool { return a.Outcome.Failed() || a.Took < 0 }

func (t *timeline) keeps(a *Attempt) bool {
	if a.isNotable() {
		return a.hash() < t.failed
	}
	return a.Took > t.long || a.hash() < t.others
}

// dropSome drops about an eighth of the failures or of the others. The longest attempts may fill a tenth
// of the sample.
func (t *timeline) dropSome() {
	failed, longest := 0, []int64{}
	for i := range t.list {
		if a := &t.list[i]; a.isNotable() {
			failed++
		} else if a.Took > t.long {
			longest = append(longest, a.Took)
		}
	}
	limit := &t.others
	if failed > t.most/2 {
		limit = &t.failed
	}
	*limit -= min(*limit, *limit/8+1)
	if less := len(longest) - t.most/10; less > 0 {
		slices.Sort(longest)
		t.long = longest[less-1]
	}
	was := len(t.list)
	t.list = slices.DeleteFunc(t.list, func(a Attempt) bool { return !t.keeps(&a) })
	t.more += int64(was - len(t.list))
}
