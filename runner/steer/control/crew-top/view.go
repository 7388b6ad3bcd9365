package main

import (
	"cmp"
	"slices"
	"time"

	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

// view holds what the screen shows, and which task of it is chosen.
type view struct {
	// what is known of the run

	hello   control.Hello
	status  control.Status // when it was last looked at
	tasks   []row          // the running ones, in order; then those that have ended, or failed and wait for their retry, the latest first
	running int            // how many of tasks run
	waits   []string       // what waits for what
	rates   []float64      // tasks per second, one for each look at the run
	over    string         // control.Ended or Killed; "" while it runs
	looked  time.Time      // when the run last answered

	// what the user wants

	order      int    // which of columns the running tasks are sorted by
	chosen     uint64 // the task; 0 for none
	past       bool   // it is one of those that do not run
	place      int    // its row when it was last seen
	first      int    // the first running task shown
	firstEnded int    // the same of the others
	page       int    // how many running tasks were shown
	left       int    // columns of the commands that are not shown

	// what is shown instead or on the last line

	runs     []control.Hello // of which one is to be chosen; nil once it is
	run      int             // the one that is marked
	firstRun int             // the first one shown
	help     bool            // the keys are shown
	log      *log            // the output that is shown; nil for none
	ask      *question       // waits for an answer; nil for none
	message  string          // what there is to say, until the next key
}

// row is a task that the user can choose.
type row struct {
	task.Where
	usage
	measured bool
}

// name returns what the table calls the task: with its record if the rest does not tell that.
func (r *row) name() string {
	name, record := r.Shown()
	if r.Note != "" {
		name = "[" + string(r.Note) + "] " + name
	}
	if record != "" {
		name = record + "  " + name
	}
	return name
}

// known returns what people recognize the task by.
func (r *row) known() string { return cmp.Or(string(r.Record), r.name()) }

// question asks for consent before a command is sent.
type question struct {
	question string
	yes      func()
}

const (
	keptRates = 1000            // looks; more than any terminal has columns
	patience  = 3 * time.Second // until the run counts as silent
)

// learn takes the status of the run at a moment, and what its tasks use by process ID.
func (v *view) learn(s *control.Status, used map[int]usage, now time.Time) {
	if passed := now.Sub(v.looked).Seconds(); v.status.Elapsed > 0 && passed > 0 {
		ran := s.Done - s.Skipped - (v.status.Done - v.status.Skipped)
		v.rates = append(v.rates, float64(max(0, ran))/passed)
		v.rates = v.rates[max(0, len(v.rates)-keptRates):]
	}
	v.place = v.chosenRow()
	v.status, v.waits, v.looked = *s, s.Reasons(), now
	v.tasks, v.running = nil, len(s.Tasks)
	for _, t := range s.Tasks {
		use, measured := used[t.PID]
		v.tasks = append(v.tasks, row{t, use, measured})
	}
	for _, w := range s.Ended {
		if !slices.ContainsFunc(s.Tasks, func(t task.Where) bool { return t.Task == w.Task }) {
			v.tasks = append(v.tasks, row{Where: w})
		}
	}
	v.sort()
}

// sort puts the running tasks in order. If the chosen one has ended, the one that has
// its place is chosen.
func (v *view) sort() {
	slices.SortStableFunc(v.tasks[:v.running], func(a, b row) int {
		return cmp.Or(columns[v.order].order(&a, &b), columns[0].order(&a, &b), cmp.Compare(a.Task, b.Task))
	})
	v.choose(v.chosenRow())
}

// chosenRow returns the row of the chosen task or, if that is gone, its place.
func (v *view) chosenRow() int {
	from, to := 0, v.running
	if v.past {
		from, to = v.running, len(v.tasks)
	}
	if i := slices.IndexFunc(v.tasks[from:to], func(r row) bool { return r.Task == v.chosen }); i >= 0 {
		return from + i
	}
	if v.past || v.running == 0 {
		to = len(v.tasks)
	}
	return max(0, min(v.place, to-1))
}

// choose chooses the task of a row, or the next one that exists.
func (v *view) choose(row int) {
	v.place, v.past, v.chosen = max(0, min(row, len(v.tasks)-1)), false, 0
	if len(v.tasks) > 0 {
		v.past, v.chosen = v.place >= v.running, v.tasks[v.place].Task
	}
}

// end records that the run is over.
func (v *view) end(how string) {
	if v.over == "" {
		v.over, v.ask, v.message, v.waits = how, nil, "", nil
		v.tasks, v.running = v.tasks[v.running:], 0
	}
}

// silent returns how long the run has not answered, if that is remarkably long.
func (v *view) silent(now time.Time) time.Duration {
	if d := now.Sub(v.looked); v.over == "" && !v.looked.IsZero() && d >= patience {
		return d
	}
	return 0
}

// overText says that the run is over.
func (v *view) overText() string {
	if v.over == control.Killed {
		return "the run is gone: it was killed"
	}
	return "the run has ended"
}
