package history

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

const (
	factSize    = 1000 // bytes of a command, a key and an error
	mostEarlier = 10   // earlier attempts

	partSize = 1 << 10 // bytes of the end of an output if the list already has mostLong outputs that are longer
	mostLong = 128
)

// listed is a sorted list of at most so many of the tasks that ended, and the number of all of them.
type listed struct {
	most  int
	order func(a, b Ended) int
	list  []Ended
	all   int64
}

// latestRun puts the tasks of later runs first, so they push out tasks of earlier runs.
func latestRun(a, b Ended) int { return cmp.Compare(b.Run, a.Run) }

// firstRun puts the tasks of earlier runs first.
func firstRun(a, b Ended) int { return latestRun(b, a) }

// longest puts the tasks that took longest first.
func longest(a, b Ended) int { return cmp.Compare(b.Duration, a.Duration) }

// report returns the list in an order. place maps an index in Fold.runs to one in Report.Runs.
func (e *listed) report(place []int, order func(a, b Ended) int) List {
	out := List{List: slices.Clone(e.list), More: e.all - int64(len(e.list))}
	for i := range out.List {
		out.List[i].Run = place[out.List[i].Run]
	}
	slices.SortStableFunc(out.List, order)
	return out
}

// addFailure keeps the facts of a failed attempt until its task ends.
func (o *openTask) addFailure(l *Line) {
	f := cloneFacts(&l.Facts)
	f.Command = ""
	o.earlier = append(o.earlier, f)
	o.earlier = o.earlier[max(0, len(o.earlier)-mostEarlier):]
}

// addToLists adds a task that ended to the lists of failed, flaky and slowest tasks.
func (f *Fold) addToLists(o *openTask, l *Line, flaky bool) {
	x := Ended{Facts: l.Facts, Run: f.run, Earlier: o.earlier}
	if hasRun(&l.Facts) {
		f.slowest.add(x)
	}
	x.Output = l.Output
	switch {
	case l.Outcome.Failed():
		f.failed.add(x)
	case flaky:
		f.flaky.add(x)
	}
}

// add adds a copy of x, or only counts it if the list is full of tasks that come first.
func (e *listed) add(x Ended) {
	e.all++
	if len(e.list) == e.most && e.order(x, e.list[e.most-1]) >= 0 {
		return
	}
	size, long := tailBytes, 0
	for i := range e.list {
		if len(e.list[i].Output) > partSize {
			long++
		}
	}
	if long >= mostLong {
		size = partSize
	}
	x.Facts, x.Earlier = cloneFacts(&x.Facts), slices.Clone(x.Earlier)
	x.Output = bytes.Clone(x.Output[max(0, len(x.Output)-size):])
	e.list = insert(e.list, x, e.most, e.order)
}

// cloneFacts returns a copy of f that shares no memory with it and has its texts cut to factSize.
func cloneFacts(f *task.Facts) task.Facts {
	own := *f
	for _, s := range [...]*task.Bytes{&own.Key, &own.Command, &own.Error, &own.Host} {
		*s = task.Bytes(strings.Clone(task.Shorten(string(*s), factSize)))
	}
	if f.Exit != nil {
		own.Exit = new(*f.Exit)
	}
	own.Units = slices.Clone(f.Units)
	return own
}
