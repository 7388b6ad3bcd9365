package history

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/series"
)

// Fold makes a Report from Lines. It is not safe for concurrent use. Its memory grows with the
// number of tasks that wait, not of others.
type Fold struct {
	// Attempted, if not nil, is called for each attempt once it ended or its run did. until is the
	// time of that, in nanoseconds since 1970. l is the line about the end; if the end is unknown,
	// l.Name is "". It must be set before the first Add.
	Attempted func(a *Attempt, until int64, l *Line)
	// Stuck, if not nil, is called for each stall. It must be set before the first Add.
	Stuck func(b *Blocked)

	runs     []*run // in the order of their Began lines
	total    tally  // without void results of tasks that ran again
	outcomes [task.Outcomes]int64
	failing  bins  // durations of failed tasks
	left     int64 // tasks that did not end
	missed   int64 // events that were lost

	groups [3]*groups // keys, commands and hosts

	failed, flaky, slowest listed

	timeline *timeline
	curves   series.Builder
	blocked  []Blocked
	current
}

// current is the state of the source being read.
type current struct {
	source string
	first  int                  // index of its first run
	run    int                  // index of the run of the latest line
	waits  map[uint64]time.Time // since when a task waits to start or to be retried
	open   map[uint64]*openTask // tasks that began and have not ended
}

// run accumulates a Run.
type run struct {
	Run
	tally
	number        int      // index in Fold.runs
	running, peak int      // attempts
	detailed      bool     // the source records more than the ends of attempts
	allRead       bool     // the input ended
	stall         *Blocked // since when and why nothing starts; nil if tasks start
}

// openTask is a task that began and has not ended.
type openTask struct {
	attempt int          // number of its latest attempt
	current *Attempt     // the running attempt, or nil
	failed  bool         // an attempt failed, and was not just replaced
	earlier []task.Facts // the latest failed attempts, at most mostEarlier
}

// NewFold returns an empty Fold.
func NewFold() *Fold { return newFold(MostAttempts, mostNames) }

func newFold(attempts, names int) *Fold {
	f := &Fold{
		timeline: newTimeline(attempts), slowest: listed{most: MostListed, order: longest},
		failed: listed{most: MostFailed, order: latestRun}, flaky: listed{most: MostListed, order: latestRun},
	}
	for i := range f.groups {
		f.groups[i] = &groups{most: names, list: map[string]*group{}}
	}
	f.Source("")
	return f
}

// Source begins a new source: the lines that follow belong to it. Lines before the first call belong
// to a source named "".
func (f *Fold) Source(name string) {
	f.closeRun()
	f.current = current{source: name, first: len(f.runs), waits: map[uint64]time.Time{}, open: map[uint64]*openTask{}}
}

// Add adds a line. It does not keep l or any memory of it.
func (f *Fold) Add(l *Line) {
	switch l.Name {
	case Left:
		f.left += l.Count
		return
	case "notice", Damaged:
		return
	}
	if l.Name == Began || len(f.runs) == f.first {
		f.beginRun(l)
	}
	f.run = len(f.runs) - 1
	if l.Run > 0 {
		f.run = f.first + l.Run - 1
	}
	r := f.runs[f.run]
	r.touch(l)
	switch l.Name {
	case "admitted":
		r.detailed = true
		f.startWait(l.Task, l.At)
	case "started":
		r.detailed = true
		r.endStall(f, l.At)
		f.started(r, l)
	case "lost":
		f.missed += l.Count
	case "retried":
		f.retried(r, l)
	case "finished":
		f.finished(r, l)
	case "blocked":
		r.endStall(f, l.At)
		if l.Blocking != nil {
			r.stall = &Blocked{Run: f.run, From: l.At, Text: strings.Clone(l.Blocking.Shown)}
		}
	case "resized":
		r.Workers = max(r.Workers, l.Workers)
	case "input-end":
		r.allRead = true
	case "draining", "stopping":
		r.stopped(l.Text)
	case Over:
		r.endStall(f, l.At)
		r.Ended, r.Complete = true, r.allRead && r.Stopped == ""
		for o, n := range l.Outcomes {
			if r.Before += n; o.Failed() {
				r.FailedBefore += n
			}
		}
		r.Before, r.FailedBefore = max(0, r.Before-r.tally.Tasks), max(0, r.FailedBefore-r.tally.Failed)
	}
	f.setWaiting(len(f.waits), l.At)
}

func (f *Fold) beginRun(l *Line) {
	f.closeRun()
	r := &run{Run: Run{Source: f.source}, number: len(f.runs)}
	if l.Name == Began {
		r.Command = strings.Clone(task.Shorten(l.Text, factSize))
	}
	f.runs = append(f.runs, r)
}

// closeRun closes the current run: attempts that still run end here. Their tasks may continue in the
// next run.
func (f *Fold) closeRun() {
	if len(f.runs) == f.first {
		return
	}
	r := f.runs[len(f.runs)-1]
	r.endStall(f, r.End)
	for _, id := range slices.Sorted(maps.Keys(f.open)) {
		o := f.open[id]
		if a := o.current; a != nil {
			f.addToTimeline(*a, &Line{Facts: task.Facts{Task: id, Attempt: int(a.Number), Key: task.Bytes(a.Key), Command: task.Bytes(a.Command)}})
		}
		o.current = nil
	}
	r.running = 0
	f.setWaiting(0, r.End)
	clear(f.waits)
}

// setWaiting sets how many tasks wait from a time on, if that is known.
func (f *Fold) setWaiting(n int, at time.Time) {
	if !at.IsZero() {
		f.curves.Set(series.Waiting, float64(n), series.Nanos(at))
	}
}

// Running returns how many attempts run after the latest line.
func (f *Fold) Running() int {
	if len(f.runs) == 0 {
		return 0
	}
	return f.runs[f.run].running
}

// startWait records since when a task waits. A task that already waits keeps its time, because a journal
// repeats the line of a task that was changed.
func (f *Fold) startWait(id uint64, since time.Time) {
	if _, waits := f.waits[id]; !waits {
		f.waits[id] = since
	}
}

// stopped records why the run stopped. A run may have several reasons, for example a signal after a deadline.
func (r *run) stopped(why string) {
	switch {
	case r.Stopped == "":
		r.Stopped = strings.Clone(cmp.Or(why, UnknownReason))
	case !strings.Contains(r.Stopped, why) && len(r.Stopped) < factSize:
		r.Stopped += ", " + why
	}
}

// touch extends the time of the run to include the line.
func (r *run) touch(l *Line) {
	from := l.At
	if from.IsZero() {
		return
	}
	if !r.detailed && !l.Start.IsZero() && l.Start.Before(from) {
		from = l.Start
	}
	if r.Start.IsZero() || from.Before(r.Start) {
		r.Start = from
	}
	if l.At.After(r.End) {
		r.End = l.At
	}
}

// taskOf returns the open task that l belongs to, or a new one. Tasks of different runs may have the same
// number. As the attempts of a task come in order, a lower attempt number means another task.
func (f *Fold) taskOf(l *Line) *openTask {
	o := f.open[l.Task]
	if o != nil && (l.Attempt < o.attempt || l.Attempt == o.attempt && o.current == nil) {
		o = nil
	}
	if o == nil {
		o = &openTask{}
	}
	return o
}

func (f *Fold) keepOpen(id uint64, o *openTask) {
	delete(f.waits, id)
	if len(f.open) < f.timeline.most || f.open[id] != nil { // more are tasks whose ends were lost
		f.open[id] = o
	}
}

func (f *Fold) started(r *run, l *Line) {
	o := f.taskOf(l)
	a := attemptOf(f.run, l)
	a.ran, a.Start = true, cmp.Or(l.Start, l.At).UnixNano()
	a.Waited = f.waitedFor(&a)
	if o.current == nil {
		r.running++
		r.peak = max(r.peak, r.running)
	}
	o.attempt, o.current = l.Attempt, &a
	f.keepOpen(l.Task, o)
}

// waitedFor returns how long an attempt waited before it started, or -1 if that is unknown.
func (f *Fold) waitedFor(a *Attempt) int64 {
	since, known := f.waits[a.Task]
	if !known || !a.ran {
		return -1
	}
	return max(0, a.Start-since.UnixNano())
}

// addToTimeline adds an attempt to the timeline.
func (f *Fold) addToTimeline(a Attempt, l *Line) {
	if a.ran {
		f.curves.Spread(series.Running, 1, a.Start, f.until(&a))
		if f.Attempted != nil {
			f.Attempted(&a, f.until(&a), l)
		}
	}
	f.timeline.add(a)
}

// attemptEnded adds an attempt that ended to the timeline, unless it belongs to an earlier run: then its
// task waits in this one, but the attempt began before the run did.
func (f *Fold) attemptEnded(r *run, o *openTask, l *Line, final bool) {
	a := attemptOf(f.run, l)
	a.Final, a.Outcome, a.Took = final, l.Outcome, int64(duration(&l.Facts))
	_, waits := f.waits[l.Task]
	switch c := o.current; {
	case c != nil:
		r.running--
		a.Waited = c.Waited
	case waits && a.ran && l.Start.Before(r.Start):
		return
	default:
		a.Waited = f.waitedFor(&a)
	}
	if l.At.IsZero() { // and so have all lines before it
		f.timeline.more++
		return
	}
	f.addToTimeline(a, l)
}

func (f *Fold) retried(r *run, l *Line) {
	o := f.taskOf(l)
	f.attemptEnded(r, o, l, false)
	if l.Outcome.Failed() && !l.Outcome.Replaced() { // otherwise the next attempt is no retry
		o.failed = true
		f.count(l, func(t *tally) { t.Retries++ })
	}
	o.current, o.attempt = nil, l.Attempt
	o.addFailure(l)
	f.keepOpen(l.Task, o)
	f.startWait(l.Task, l.At)
}

func (f *Fold) finished(r *run, l *Line) {
	o := f.taskOf(l)
	f.attemptEnded(r, o, l, !l.Again)
	flaky := l.Outcome == task.OK && (o.failed || l.Flaky)
	f.count(l, func(t *tally) { t.count(l, flaky) })
	if !l.Again {
		at := series.Nanos(l.At)
		f.curves.Count(series.Ended, 1, at)
		f.outcomes[min(l.Outcome, task.Outcomes-1)]++
		if l.Outcome.Failed() {
			f.curves.Count(series.Failed, 1, at)
			if hasRun(&l.Facts) {
				f.failing.add(duration(&l.Facts))
			}
		}
		f.addToLists(o, l, flaky)
	}
	delete(f.open, l.Task)
	delete(f.waits, l.Task)
}

// Report returns a report of the lines so far. Lines that are added later do not change it.
func (f *Fold) Report() *Report {
	out := &Report{Made: time.Now(), Outcomes: f.outcomes, Left: f.left, Missed: f.missed}
	order := slices.SortedStableFunc(slices.Values(f.runs), func(a, b *run) int { return a.Start.Compare(b.Start) })
	place := make([]int, len(order)) // by the indexes of runs as they come
	for i, r := range order {
		place[r.number] = i
		one := r.Run
		one.Figures, one.Workers = r.figures(), cmp.Or(r.Workers, r.peak)
		one.Ended = r.Ended || !r.detailed && r.tally.Tasks > 0 // results do not tell the end
		out.Runs = append(out.Runs, one)
	}
	out.Title, out.Total = title(out.Runs), f.total.figures()
	out.Bins = histogram(f.total.took, f.failing)
	out.Keys, out.Commands, out.Hosts = f.groups[0].report(place), f.groups[1].report(place), f.groups[2].report(place)
	out.Failed, out.Flaky, out.Slowest = f.failed.report(place, firstRun), f.flaky.report(place, firstRun), f.slowest.report(place, longest)
	out.Blocked, out.Curves = f.stalls(place), f.Curves()
	f.addAttempts(out, place)
	return out
}

func title(runs []Run) string {
	if len(runs) == 1 && runs[0].Command != "" {
		return runs[0].Command
	}
	var names []string
	for i := range runs {
		if name := runs[i].Source; name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
