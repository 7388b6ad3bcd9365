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

	tailSize = 8 << 10 // bytes of the end of an output
	partSize = 1 << 10 // the same if the list already has mostLong outputs that are longer than this
	mostLong = 128
)

// listed is a bounded list of tasks that ended. When it is full, tasks of a later run push out the
// oldest tasks of earlier runs, and further tasks of the same run are only counted.
type listed struct {
	most int
	list []Ended
	all  int64
}

// report returns the list in the order of the runs. place maps an index in Fold.runs to one in
// Report.Runs.
func (e *listed) report(place []int) List {
	out := List{List: slices.Clone(e.list), More: e.all - int64(len(e.list))}
	moveToRuns(out.List, place)
	slices.SortStableFunc(out.List, func(a, b Ended) int { return cmp.Compare(a.Run, b.Run) })
	return out
}

func moveToRuns(list []Ended, place []int) {
	for i := range list {
		list[i].Run = place[list[i].Run]
	}
}

// addFailure keeps the facts of a failed attempt until its task ends.
func (o *openTask) addFailure(l *Line) {
	f := cloneFacts(&l.Facts)
	f.Command = ""
	if len(o.earlier) == mostEarlier {
		o.earlier = append(o.earlier[:0], o.earlier[1:]...)
	}
	o.earlier = append(o.earlier, f)
}

// addToLists adds a task that ended to the lists of failed, flaky and slowest tasks.
func (f *Fold) addToLists(o *openTask, l *Line, flaky bool) {
	switch {
	case l.Outcome.Failed():
		f.failed.add(f.run, o, l)
	case flaky:
		f.flaky.add(f.run, o, l)
	}
	if d := l.Duration; hasRun(&l.Facts) && (len(f.slowest) < MostListed || d > f.slowest[MostListed-1].Duration) {
		f.slowest = insert(f.slowest, newEnded(f.run, o, l), MostListed, func(a, b Ended) int { return cmp.Compare(b.Duration, a.Duration) })
	}
}

// add adds a task, or only counts it if the list is full of tasks of the same or a later run.
func (e *listed) add(run int, o *openTask, l *Line) {
	e.all++
	if len(e.list) == e.most {
		if e.list[0].Run >= run {
			return
		}
		e.list[0], e.list = Ended{}, e.list[1:]
	}
	x, size, long := newEnded(run, o, l), tailSize, 0
	for i := range e.list {
		if len(e.list[i].Output) > partSize {
			long++
		}
	}
	if long >= mostLong {
		size = partSize
	}
	x.Output = bytes.Clone(l.Output[max(0, len(l.Output)-size):])
	e.list = append(e.list, x)
}

// newEnded returns a copy of a task that ended, without its output.
func newEnded(run int, o *openTask, l *Line) Ended {
	return Ended{Facts: cloneFacts(&l.Facts), Run: run, Earlier: slices.Clone(o.earlier)}
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
