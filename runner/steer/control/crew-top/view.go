package main

import (
	"slices"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/series"
	"crew/runner/steer/control"
)

// view holds the state of the screen.
type view struct {
	// the run

	hello   control.Hello
	status  control.Status  // the latest one
	tasks   []row           // running tasks, sorted; then tasks that ended or wait for their retry, latest first
	running int             // number of running tasks
	waits   []task.Blocking // reasons why tasks wait
	curves  series.Curves   // of the run so far; empty if unknown
	over    string          // control.Ended or Killed; "" while it runs
	looked  time.Time       // when the run last answered

	// the user's choices

	sortBy      int    // index in orders
	chosen      uint64 // number of the chosen task; 0 for none
	endedChosen bool   // the chosen task does not run
	lastRow     int    // row of the chosen task when it was last seen
	first       int    // first running task shown
	firstEnded  int    // first of the other tasks shown
	page        int    // number of running tasks shown
	left        int    // hidden columns of the commands
	graphed     int    // index in graphs

	// other screens and the last line

	runs     []control.Hello // runs to choose from; nil once one is chosen
	run      int             // the marked run
	firstRun int             // the first run shown
	log      *log            // the log or list of keys that is shown; nil for none
	ask      *question       // a pending question; nil for none
	message  string          // shown until the next key
}

// row is a task in the view.
type row struct {
	task.Where
	usage
	measured bool
}

// name returns the text of the task in the table: what tells it from others, and then its command, unless
// that says nothing about it.
func (r *row) name() string {
	name, _ := r.Name()
	if r.Record != "" && r.Tag == "" && r.Apart == "" {
		name += "  " + string(r.Command)
	}
	return name
}

// question asks for consent before a request is sent.
type question struct {
	text    string
	request control.Request
}

// silentAfter is how long a run may not answer until it counts as silent.
const silentAfter = 3 * time.Second

// update stores a new status of the run and the usage of its tasks by process ID.
func (v *view) update(s *control.Status, used map[int]usage) {
	v.status, v.waits, v.looked = *s, s.Reasons(), time.Now()
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

// sort sorts the running tasks. If the chosen task has ended, the task in its row is chosen.
func (v *view) sort() {
	slices.SortStableFunc(v.tasks[:v.running], func(a, b row) int { return orders[v.sortBy].compare(&a, &b) })
	v.choose(v.chosenRow())
}

// chosenRow returns the row of the chosen task or, if that has ended or is gone, the nearest row to its last one.
func (v *view) chosenRow() int {
	i := slices.IndexFunc(v.tasks, func(r row) bool { return r.Task == v.chosen })
	if i >= 0 && (i >= v.running) == v.endedChosen {
		return i
	}
	last := len(v.tasks) - 1
	if !v.endedChosen && v.running > 0 {
		last = v.running - 1
	}
	return max(0, min(v.lastRow, last))
}

// choose chooses the task in a row, or in the nearest row that exists.
func (v *view) choose(row int) {
	v.lastRow, v.endedChosen, v.chosen = max(0, min(row, len(v.tasks)-1)), false, 0
	if len(v.tasks) > 0 {
		v.endedChosen, v.chosen = v.lastRow >= v.running, v.tasks[v.lastRow].Task
	}
}

// end records that the run is over.
func (v *view) end(how string) {
	v.over, v.ask, v.message, v.waits = how, nil, "", nil
	v.tasks, v.running = v.tasks[v.running:], 0
}

// silent returns how long the run has not answered, or 0 if that is less than silentAfter.
func (v *view) silent() time.Duration {
	if d := time.Since(v.looked); v.over == "" && d >= silentAfter {
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
