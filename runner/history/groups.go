package history

import (
	"cmp"
	"hash/maphash"
	"maps"
	"math/bits"
	"slices"
	"strings"
	"unicode"

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
	most  int // names
	room  int // tallies that may still be made
	words int // of a command that are the name, or 0 for all of them

	list map[string][]*tally // by run; nil for a run without it
	rest tally
	seen *[1 << 10]uint64 // a bit for each hash of a name of the rest
	seed maphash.Seed
}

func newGroups(most int) *groups {
	return &groups{most: most, room: most * mostRuns, list: map[string][]*tally{}, seed: maphash.MakeSeed()}
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
	if _, known := g.list[name]; !known && len(g.list) >= g.most {
		return g.more(name)
	}
	t := &tally{}
	g.put(name, run, t)
	return t
}

// put makes t the tally of a name in a run.
func (g *groups) put(name string, run int, t *tally) {
	by, known := g.list[name]
	if !known {
		name = strings.Clone(name)
	}
	by = append(by, make([]*tally, max(0, run+1-len(by)))...)
	by[run] = t
	g.list[name] = by
	g.room--
}

// halve makes the half of the names that took least time a part of the rest.
func (g *groups) halve() {
	list, totals := g.sorted()
	g.most = len(list) / 2
	for _, least := range list[g.most:] {
		g.more(least.Name).merge(totals[least.Name])
		for _, t := range g.list[least.Name] {
			if t != nil {
				g.room++
			}
		}
		delete(g.list, least.Name)
	}
}

// more returns the tally of the rest, into which name goes.
func (g *groups) more(name string) *tally {
	if g.seen == nil {
		g.seen = new([1 << 10]uint64)
	}
	h := maphash.String(g.seed, name)
	g.seen[h/64%uint64(len(g.seen))] |= 1 << (h % 64)
	return &g.rest
}

// command is in for a command. All of the command is the name while there are few
// different ones, as if the same tests run every night; otherwise, so many of its first
// words that there are few.
func (g *groups) command(run int, line string) *tally {
	name := firstWords(line, g.words)
	for g.words != 1 && g.seen == nil && len(g.list) >= g.most && g.list[name] == nil {
		g.coarsen()
		name = firstWords(line, g.words)
	}
	return g.in(run, name)
}

// coarsen takes fewer words for a name.
func (g *groups) coarsen() {
	if g.words--; g.words < 0 {
		g.words = 3
	}
	fine := g.list
	g.list, g.room = map[string][]*tally{}, g.most*mostRuns
	for _, long := range slices.Sorted(maps.Keys(fine)) { // sums of floats depend on the order
		name := firstWords(long, g.words)
		for run, t := range fine[long] {
			if old := g.list[name]; t == nil {
			} else if run < len(old) && old[run] != nil {
				old[run].merge(t)
			} else {
				g.put(name, run, t)
			}
		}
	}
}

// firstWords returns the beginning of a command of n words, or all of it for 0, in at most
// nameSize bytes.
func firstWords(line string, n int) string {
	line = line[:min(len(line), nameSize)]
	if n == 0 {
		return line
	}
	line = strings.TrimSpace(line)
	for end := 0; ; n-- {
		if next := strings.IndexFunc(line[end:], unicode.IsSpace); next < 0 {
			return line
		} else if end += next; n == 1 {
			return line[:end]
		}
		end += len(line[end:]) - len(strings.TrimLeftFunc(line[end:], unicode.IsSpace))
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
	out.More = int64(max(0, len(out.List)-MostGroups)) + g.unlisted()
	out.List, out.Rest = slices.Clip(out.List[:min(len(out.List), MostGroups)]), rest.figures()
	for i := range out.List {
		if grp := &out.List[i]; len(runs) > 1 {
			grp.ByRun = byRun(g.list[grp.Name], runs)
		}
	}
	return out
}

// unlisted returns how many names the rest has, at least.
func (g *groups) unlisted() (n int64) {
	if g.seen != nil {
		for _, word := range g.seen {
			n += int64(bits.OnesCount64(word))
		}
	}
	return n
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

// end adds the end of a task to the groups that it belongs to.
func (f *Fold) end(run int, l *Line, flaky bool) {
	f.runs[run].end(l, flaky)
	f.keys.in(run, string(l.Key)).end(l, flaky)
	f.commands.command(run, string(l.Command)).end(l, flaky)
	if !l.Start.IsZero() {
		f.hosts.in(run, string(l.Host)).end(l, flaky)
	}
}

// retry counts a retry in the groups of its task.
func (f *Fold) retry(run int, l *task.Facts) {
	f.runs[run].retries++
	f.keys.in(run, string(l.Key)).retries++
	f.commands.command(run, string(l.Command)).retries++
	f.hosts.in(run, string(l.Host)).retries++
}
