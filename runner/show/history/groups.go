package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

const (
	mostNames = 4096 // names of each kind that have a tally of their own
	mostRuns  = 64   // latest runs with tallies of their own by name
	nameSize  = 400  // bytes of a name
)

// groups holds tallies by name, and by name and run, for the first names that occur.
type groups struct {
	most int // names in list
	list map[string]*group
	rest tally // of all further names
}

type group struct {
	tally // without void results of tasks that ran again
	by    map[int]*tally
}

// count calls add with each tally that a line about a task belongs to.
func (f *Fold) count(l *Line, add func(*tally)) {
	both := func(all, own *tally) {
		if !l.Again {
			add(all)
		}
		add(own)
	}
	both(&f.total, &f.runs[f.run].tally)
	for i, name := range [...]task.Bytes{l.Key, l.Command, l.Host} {
		if i < 2 || !l.Start.IsZero() { // a task that has not begun has no host
			both(f.groups[i].tallies(f.run, len(f.runs), string(name)))
		}
	}
}

// tallies returns the tallies of a name: the one over all runs, and the one of run. runs is the number of
// runs so far; tallies of runs that are more than mostRuns back are dropped.
func (g *groups) tallies(run, runs int, name string) (all, own *tally) {
	name = task.ShortenUnique(name, nameSize)
	of := g.list[name]
	if of == nil && len(g.list) == g.most {
		return &g.rest, &tally{}
	}
	if of == nil {
		of = &group{by: map[int]*tally{}}
		g.list[strings.Clone(name)] = of
	}
	if own = of.by[run]; own == nil {
		own = &tally{}
		of.by[run] = own
		maps.DeleteFunc(of.by, func(run int, _ *tally) bool { return run < runs-mostRuns })
	}
	return &of.tally, own
}

// report returns the groups sorted by their total time, longest first. runs maps an index in Fold.runs
// to one in Report.Runs.
func (g *groups) report(runs []int) (out Groups) {
	for name, of := range g.list {
		out.List = append(out.List, Group{Name: name, Figures: of.figures()})
	}
	slices.SortFunc(out.List, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(b.Tasks, a.Tasks), strings.Compare(a.Name, b.Name))
	})
	out.Rest = g.rest.Tasks
	for len(out.List) > MostGroups {
		last := len(out.List) - 1
		out.Rest += out.List[last].Tasks
		out.List = out.List[:last]
	}
	for i := range out.List {
		if one := &out.List[i]; len(runs) > 1 {
			one.ByRun = make([]Figures, len(runs))
			for run, t := range g.list[one.Name].by {
				one.ByRun[runs[run]] = t.figures()
			}
		}
	}
	return out
}
