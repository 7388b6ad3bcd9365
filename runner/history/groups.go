package history

import (
	"cmp"
	"slices"
	"strings"

	"crew/runner/task"
)

const (
	mostNames = 4096 // of each kind that have tallies
	mostRuns  = 64   // tallies of a name, if all have as many
	nameSize  = 400  // bytes of a name
)

// groups are tallies by name and run. The first names that come have some, and the tasks of
// all later names are one group, the rest. If there are too many tallies, since there are
// many runs, half of the names go into the rest, too: those that took least time. So what
// is known of a name is all of it.
type groups struct {
	most int // names
	room int // tallies that may still be made

	list map[string][]*tally // by run; nil for a run without it
	rest tally
}

func newGroups(most int) *groups {
	return &groups{most: most, room: most * mostRuns, list: map[string][]*tally{}}
}

// in returns the tally of a name in a run.
func (g *groups) in(run int, name string) *tally {
	name = task.Abridge(name, nameSize)
	if by := g.list[name]; run < len(by) && by[run] != nil {
		return by[run]
	}
	if g.room <= 0 {
		g.halve()
	}
	by, known := g.list[name]
	switch {
	case !known && len(g.list) >= g.most:
		return &g.rest
	case !known:
		name = strings.Clone(name)
	}
	by = append(by, make([]*tally, max(0, run+1-len(by)))...)
	by[run] = &tally{}
	g.list[name] = by
	g.room--
	return by[run]
}

// halve makes the half of the names that took least time a part of the rest.
func (g *groups) halve() {
	list, totals := g.sorted()
	g.most = len(list) / 2
	for _, least := range list[g.most:] {
		g.rest.merge(totals[least.Name])
		for _, t := range g.list[least.Name] {
			if t != nil {
				g.room++
			}
		}
		delete(g.list, least.Name)
	}
}

// sorted returns the groups, those first that took most time, and their tallies in all.
func (g *groups) sorted() (list []Group, totals map[string]*tally) {
	totals = make(map[string]*tally, len(g.list))
	for name, by := range g.list {
		total := &tally{}
		for _, t := range by {
			if t != nil {
				total.merge(t)
			}
		}
		totals[name] = total
		list = append(list, Group{Name: name, Figures: total.figures()})
	}
	slices.SortFunc(list, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(b.Tasks, a.Tasks), strings.Compare(a.Name, b.Name))
	})
	return list, totals
}

// report returns the groups. runs are the indexes that the runs have in the report.
func (g *groups) report(runs []int) (out Groups) {
	var totals map[string]*tally
	out.List, totals = g.sorted()
	rest := &tally{}
	rest.merge(&g.rest)
	for i := MostGroups; i < len(out.List); i++ {
		rest.merge(totals[out.List[i].Name])
	}
	out.List, out.Rest = slices.Clip(out.List[:min(len(out.List), MostGroups)]), rest.figures()
	for i := range out.List {
		if grp := &out.List[i]; len(runs) > 1 {
			grp.ByRun = byRun(g.list[grp.Name], runs)
		}
	}
	return out
}

func byRun(by []*tally, runs []int) []Figures {
	list := make([]Figures, len(runs))
	for run, t := range by {
		if t != nil {
			list[runs[run]] = t.all()
		}
	}
	return list
}

// tallies returns those to which a line about a task belongs. The last one is nil if the task
// has not begun.
func (f *Fold) tallies(l *Line) (all [4]*tally) {
	all = [...]*tally{&f.runs[f.run].tally, f.keys.in(f.run, string(l.Key)), f.commands.in(f.run, string(l.Command)), nil}
	if !l.Start.IsZero() {
		all[3] = f.hosts.in(f.run, string(l.Host))
	}
	return all
}
