package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"crew/runner/task"
)

// attempts returns those of the timeline, and those that run, as they began.
func (f *Fold) attempts() []attempt {
	list := f.timeline.all()
	from := len(list)
	for _, o := range f.open {
		if o.current != nil {
			list = append(list, *o.current)
		}
	}
	slices.SortFunc(list[from:], began)
	list = list[:min(len(list), from+mostRunning)]
	slices.SortFunc(list, began)
	return list
}

func began(a, b attempt) int {
	return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.run, b.run), cmp.Compare(a.task, b.task), cmp.Compare(a.number, b.number))
}

// columns puts the attempts into the report.
func (f *Fold) columns(out *Report, list []attempt, place []int) {
	n := len(list)
	c := &out.Attempts
	*c = Attempts{
		More: f.timeline.more, Run: make([]int32, n), Task: make([]uint64, n), Attempt: make([]int32, n),
		Start: make([]float64, n), Took: make([]float64, n), Waited: make([]float64, n), Outcome: make([]task.Outcome, n),
		Final: make([]bool, n), Code: make([]int32, n), Key: make([]int32, n), Command: make([]int32, n), Names: []string{""},
	}
	if n == 0 {
		return
	}
	c.Base = time.Unix(0, list[0].start)
	if begin := out.Runs[0].Start; !begin.IsZero() && begin.Before(c.Base) {
		c.Base = begin
	}
	base, names := c.Base.UnixNano(), map[string]int32{"": 0}
	name := func(s string) int32 {
		i, known := names[s]
		if !known {
			i = int32(len(names))
			names[s] = i
			c.Names = append(c.Names, s)
		}
		return i
	}
	for i := range list {
		a := &list[i]
		c.Run[i], c.Task[i], c.Attempt[i] = int32(place[a.run]), a.task, a.number
		c.Start[i], c.Took[i], c.Waited[i] = millis(a.start-base), millis(a.took), millis(a.waited)
		c.Outcome[i], c.Final[i], c.Code[i] = a.outcome, a.final, a.code
		c.Key[i], c.Command[i] = name(a.key), name(a.command)
	}
	c.Lanes, c.Lane = f.lanes(list)
	f.workers(out.Runs, list, place)
}

// millis converts nanoseconds; negative numbers stay -1.
func millis(ns int64) float64 {
	if ns < 0 {
		return -1
	}
	return float64(ns) / 1e6
}

// workers sets how many workers the runs had at once at most, where the source has not told
// and the attempts tell it.
func (f *Fold) workers(runs []Run, list []attempt, place []int) {
	used := make([]Rows, len(runs))
	for i := range list {
		if a := &list[i]; a.ran && a.outcome != task.StartFailed { // which has no worker
			used[place[a.run]].Take(a.start, f.until(a))
		}
	}
	for at, r := range f.runs {
		if one := &runs[place[at]]; one.Workers == 0 && r.told {
			one.Workers = r.peak
		} else if one.Workers == 0 && f.timeline.more == 0 {
			one.Workers = used[place[at]].n
		}
	}
}

// lane is one of Attempts.Lanes: a worker has several rows if attempts of it overlap, as
// with places.
type lane struct {
	host        string
	worker, row int32
}

func (l lane) compare(o lane) int {
	return cmp.Or(strings.Compare(l.host, o.host), cmp.Compare(l.worker, o.worker), cmp.Compare(l.row, o.row))
}

// lanes gives each attempt a row of its worker that is free, or of its host if the worker is
// unknown.
func (f *Fold) lanes(list []attempt) (all []Lane, of []int32) {
	taken, workers, ids := make([]lane, len(list)), map[lane]*Rows{}, map[lane]int32{}
	for i := range list {
		if a := &list[i]; a.ran {
			l := lane{host: a.host, worker: a.worker}
			if workers[l] == nil {
				workers[l] = &Rows{}
			}
			row, _, _ := workers[l].Take(a.start, f.until(a))
			l.row = int32(row)
			taken[i], ids[l] = l, 0
		}
	}
	for _, l := range slices.SortedFunc(maps.Keys(ids), lane.compare) {
		ids[l] = int32(len(all))
		all = append(all, Lane{Host: l.host, Worker: int(l.worker)})
	}
	of = make([]int32, len(list))
	for i := range list {
		if of[i] = -1; list[i].ran {
			of[i] = ids[taken[i]]
		}
	}
	return all, of
}

// until returns when an attempt ended or, if that is unknown, when its run was seen last.
func (f *Fold) until(a *attempt) int64 {
	if a.took >= 0 {
		return a.start + a.took
	}
	return max(a.start, f.runs[a.run].End.UnixNano())
}
