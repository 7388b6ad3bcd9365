package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// attempts returns the attempts of the timeline and those that still run, sorted by their start.
func (f *Fold) attempts() []Attempt {
	list := slices.Clone(f.timeline.list)
	for _, o := range f.open {
		if o.current != nil {
			list = append(list, *o.current)
		}
	}
	slices.SortFunc(list, began)
	return list
}

func began(a, b Attempt) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Run, b.Run), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Number, b.Number))
}

// addAttempts adds the attempts and their lanes to the report.
func (f *Fold) addAttempts(out *Report, place []int) {
	list := f.attempts()
	out.Attempts = Attempts{List: list, More: f.timeline.more, Base: out.Made, Lanes: f.lanes(list)}
	if len(list) > 0 {
		out.Attempts.Base = time.Unix(0, list[0].Start)
	}
	for i := range list {
		list[i].Run = int32(place[list[i].Run])
	}
}

// lanes assigns each attempt a free row of its worker, or of its host if the worker is unknown, and
// returns the rows. A worker has several if its attempts overlap, for example if it has several places.
func (f *Fold) lanes(list []Attempt) (all []Lane) {
	rows, first := map[Lane]*Rows{}, map[Lane]int32{}
	for i := range list {
		if a := &list[i]; a.ran {
			l := a.worker()
			if rows[l] == nil {
				rows[l] = &Rows{}
			}
			row, _, _ := rows[l].Take(a.Start, f.until(a))
			a.Lane = int32(row)
		}
	}
	for _, l := range slices.SortedFunc(maps.Keys(rows), func(a, b Lane) int { return cmp.Or(strings.Compare(a.Host, b.Host), a.Worker-b.Worker) }) {
		first[l] = int32(len(all))
		all = append(all, slices.Repeat([]Lane{l}, rows[l].n)...)
	}
	for i := range list {
		if a := &list[i]; a.ran {
			a.Lane += first[a.worker()]
		}
	}
	return all
}

// worker returns the worker or, if it is unknown, the host of an attempt.
func (a *Attempt) worker() Lane { return Lane{a.Host, int(a.Worker)} }

// until returns when an attempt ended or, if that is unknown, the time of the last line of its run.
func (f *Fold) until(a *Attempt) int64 {
	if a.Took >= 0 {
		return a.Start + a.Took
	}
	return max(a.Start, f.runs[a.Run].End.UnixNano())
}
