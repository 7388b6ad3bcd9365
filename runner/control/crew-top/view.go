package main

import (
	"cmp"
	"slices"
	"time"
)

// view is what the screen shows, and which task of it is chosen.
type view struct {
	// what is known of the run

	run      run
	tasks    []row     // running ones, in order
	rates    []float64 // tasks per second, one for each look at the run
	failures []string  // the latest first
	over     string    // "ended" or killed; "" while it runs
	looked   time.Time // when the run last answered

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

// run is the state of the run as a whole.
type run struct {
	name, command, state string
	pid, workers         int
	done, total, failed  int64
	cancelled, notRun    int64         // of those done
	known                bool          // total is final
	elapsed, eta         time.Duration // eta is negative if it cannot be said
	rate                 float64       // tasks per second
	queue                string        // how many tasks wait where
	waits                []string      // what waits for what
	blocked              bool          // the first of waits is why nothing starts
}

// row is a running task.
type row struct {
	id                   uint64
	worker, attempt, pid int
	age                  time.Duration
	command              string
	measured             bool
	usage
}

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

// learn takes the state of the run at a moment.
func (v *view) learn(r run, tasks []row, now time.Time) {
	if passed := now.Sub(v.looked).Seconds(); v.run.elapsed > 0 && passed > 0 {
		v.rates = append(v.rates, float64(max(0, r.done-v.run.done))/passed)
		v.rates = v.rates[max(0, len(v.rates)-keptRates):]
	}
	v.place = v.chosenRow()
	v.run, v.tasks, v.looked = r, tasks, now
	v.sort()
}

// sort puts the tasks in order. If the chosen one has ended, the one that has its
// place is chosen.
func (v *view) sort() {
	slices.SortStableFunc(v.tasks, func(a, b row) int {
		by := 0
		switch v.order {
		case byAge:
			by = cmp.Compare(b.age, a.age)
		case byCPU:
			by = cmp.Compare(b.cpu, a.cpu)
		case byMemory:
			by = cmp.Compare(b.memory, a.memory)
		}
		return cmp.Or(by, cmp.Compare(a.worker, b.worker), cmp.Compare(a.id, b.id))
	})
	v.choose(v.chosenRow())
}

// chosenRow returns the row of the chosen task or, if that has ended, its place.
func (v *view) chosenRow() int {
	for i := range v.tasks {
		if v.tasks[i].id == v.chosen {
			return i
		}
	}
	return max(0, min(v.place, len(v.tasks)-1))
}

// choose chooses the task of a row, or the next one that exists.
func (v *view) choose(row int) {
	v.place = max(0, min(row, len(v.tasks)-1))
	if v.chosen = 0; v.place < len(v.tasks) {
		v.chosen = v.tasks[v.place].id
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
