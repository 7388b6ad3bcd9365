package main

import (
	"cmp"
	"slices"
	"time"

	"crew/runner/control"
)

// view is what the screen shows, and which task of it is chosen.
type view struct {
	// what is known of the run

	hello    control.Hello
	status   control.Status // when it was last looked at
	tasks    []row          // running ones, in order
	waits    []string       // what waits for what
	rates    []float64      // tasks per second, one for each look at the run
	failures []string       // the latest first
	over     string         // "ended" or killed; "" while it runs
	looked   time.Time      // when the run last answered

	// what the user wants

	order   order
	chosen  uint64    // the task; 0 for none
	place   int       // its row when it was last seen
	first   int       // the first row shown
	page    int       // how many rows were shown
	left    int       // columns of the commands that are not shown
	help    bool      // the keys are shown
	log     *log      // the output that is shown; nil for none
	ask     *question // waits for an answer; nil for none
	message string    // what there is to say, until the next key
}

// row is a running task.
type row struct {
	control.Running
	usage
	measured bool
}

// name returns what the table calls the task.
func (r *row) name() string { return cmp.Or(string(r.Tag), string(r.Command)) }

// question is what is asked before something is done.
type question struct {
	question string
	yes      func()
}

// order is what tasks are sorted by.
type order uint8

const (
	byWorker order = iota
	byAge
	byCPU
	byMemory
	unordered
)

var orderNames = [...]string{byWorker: "worker", byAge: "age", byCPU: "CPU", byMemory: "memory"}

const (
	keptRates    = 1000 // looks; more than any terminal has columns
	keptFailures = 100
	patience     = 3 * time.Second       // until the run counts as silent
	again        = 50 * time.Millisecond // until it is asked again after an error
)

// learn takes the status of the run at a moment, and what its tasks use by process ID.
func (v *view) learn(s *control.Status, used map[int]usage, now time.Time) {
	if passed := now.Sub(v.looked).Seconds(); v.status.Elapsed > 0 && passed > 0 {
		v.rates = append(v.rates, float64(max(0, s.Done-v.status.Done))/passed)
		v.rates = v.rates[max(0, len(v.rates)-keptRates):]
	}
	v.place = v.chosenRow()
	v.status, v.waits, v.looked = *s, s.Reasons(), now
	v.tasks = make([]row, len(s.Tasks))
	for i, t := range s.Tasks {
		use, measured := used[t.PID]
		v.tasks[i] = row{t, use, measured}
	}
	v.sort()
}

// sort puts the tasks in order. If the chosen one has ended, the one that has its
// place is chosen.
func (v *view) sort() {
	slices.SortStableFunc(v.tasks, func(a, b row) int {
		by := 0
		switch v.order {
		case byAge:
			by = cmp.Compare(b.Age, a.Age)
		case byCPU:
			by = cmp.Compare(b.cpu, a.cpu)
		case byMemory:
			by = cmp.Compare(b.memory, a.memory)
		}
		return cmp.Or(by, cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Task, b.Task))
	})
	v.choose(v.chosenRow())
}

// chosenRow returns the row of the chosen task or, if that has ended, its place.
func (v *view) chosenRow() int {
	for i := range v.tasks {
		if v.tasks[i].Task == v.chosen {
			return i
		}
	}
	return max(0, min(v.place, len(v.tasks)-1))
}

// choose chooses the task of a row, or the next one that exists.
func (v *view) choose(row int) {
	v.place = max(0, min(row, len(v.tasks)-1))
	if v.chosen = 0; v.place < len(v.tasks) {
		v.chosen = v.tasks[v.place].Task
	}
}

// fail adds a failed attempt.
func (v *view) fail(text string) {
	v.failures = slices.Insert(v.failures, 0, text)
	v.failures = v.failures[:min(len(v.failures), keptFailures)]
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
	if v.over == killed {
		return "the run is gone: it was killed"
	}
	return "the run has ended"
}
