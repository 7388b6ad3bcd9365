package history

import (
	"cmp"
	"slices"
	"time"
)

// unblock ends the time in which nothing started.
func (r *run) unblock(f *Fold, at time.Time) {
	if !r.since.IsZero() && at.After(r.since) {
		f.block(Blocked{Run: len(f.runs) - 1, From: r.since, To: at, By: r.blocked.By, Text: r.blocked.Text})
	}
	r.since = time.Time{}
}

// block keeps a time if it is one of the longest.
func (f *Fold) block(b Blocked) {
	f.blocked = append(f.blocked, b)
	if len(f.blocked) == 2*MostBlocked {
		longestFirst(f.blocked)
		clear(f.blocked[MostBlocked:])
		f.blocked = f.blocked[:MostBlocked]
	}
}

func longestFirst(list []Blocked) {
	slices.SortStableFunc(list, func(a, b Blocked) int { return cmp.Compare(b.To.Sub(b.From), a.To.Sub(a.From)) })
}

// blocks returns the longest times in which nothing started, the first of them first.
func (f *Fold) blocks(place []int) []Blocked {
	list := slices.Clone(f.blocked)
	if n := len(f.runs) - 1; n >= 0 {
		if r := f.runs[n]; !r.since.IsZero() && r.End.After(r.since) {
			list = append(list, Blocked{Run: n, From: r.since, To: r.End, By: r.blocked.By, Text: r.blocked.Text})
		}
	}
	longestFirst(list)
	list = slices.Clip(list[:min(len(list), MostBlocked)])
	for i := range list {
		list[i].Run = place[list[i].Run]
	}
	slices.SortStableFunc(list, func(a, b Blocked) int { return a.From.Compare(b.From) })
	return list
}
