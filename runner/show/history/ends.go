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
	partSize = 1 << 10 // the same where there are already mostLong longer ones
	mostLong = 128
)

// listed has tasks that ended. If there are too many, it has the first ones of the latest run, and
// the last ones of those before it.
type listed struct {
	most int
	list []Ended
	all  int64
}

// report returns the list in the order of the runs.
func (e *listed) report(place []int) List {
	out := List{List: slices.Clone(e.list), More: e.all - int64(len(e.list))}
	placed(out.List, place)
	slices.SortStableFunc(out.List, func(a, b Ended) int { return cmp.Compare(a.Run, b.Run) })
	return out
}

func placed(list []Ended, place []int) {
	for i := range list {
		list[i].Run = place[list[i].Run]
	}
}

// fail keeps what is told of a failed attempt until its task has ended.
func (o *open) fail(l *Line) {
	f := facts(&l.Facts)
	f.Command = ""
	if len(o.earlier) == mostEarlier {
		o.earlier = append(o.earlier[:0], o.earlier[1:]...)
	}
	o.earlier = append(o.earlier, f)
}

// list lists a task that ended.
func (f *Fold) list(o *open, l *Line, flaky bool) {
	switch {
	case l.Outcome.Failed():
		f.failed.add(f.run, o, l)
	case flaky:
		f.flaky.add(f.run, o, l)
	}
	if d := l.Duration; hasRun(&l.Facts) && (len(f.slowest) < MostListed || d > f.slowest[MostListed-1].Duration) {
		f.slowest = insert(f.slowest, ended(f.run, o, l), MostListed, func(a, b Ended) int { return cmp.Compare(b.Duration, a.Duration) })
	}
}

// add lists a task.
func (e *listed) add(run int, o *open, l *Line) {
	e.all++
	if len(e.list) == e.most {
		if e.list[0].Run >= run {
			return
		}
		e.list[0], e.list = Ended{}, e.list[1:]
	}
	x, size, long := ended(run, o, l), tailSize, 0
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

// ended returns a task that has ended, without its output.
func ended(run int, o *open, l *Line) Ended {
	return Ended{Facts: facts(&l.Facts), Run: run, Earlier: slices.Clone(o.earlier)}
}

// facts returns a copy of facts that can be kept. Texts are cut.
func facts(f *task.Facts) task.Facts {
	own := *f
	for _, s := range [...]*task.Bytes{&own.Key, &own.Command, &own.Error, &own.Host} {
		*s = task.Bytes(strings.Clone(task.Shorten(string(*s), factSize)))
	}
	if f.Exit != nil {
		exit := *f.Exit
		own.Exit = &exit
	}
	own.Units = slices.Clone(f.Units)
	return own
}
