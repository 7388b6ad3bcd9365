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

	hello  control.Hello
	status control.Status  // when it was last looked at
	tasks  []row           // running ones, in order
	waits  []string        // what waits for what
	rates  []float64       // tasks per second, one for each look at the run
	ended  []control.Where // tasks that have ended, or failed and wait for their retry, the latest first
	over   string          // "ended" or killed; "" while it runs
	looked time.Time       // when the run last answered
	runs   []control.Hello // of which one is to be chosen; nil once it is

	// what the user wants

	order      order
	chosen     uint64    // the task; 0 for none
	past       bool      // it is one of those that have ended
	place      int       // its row when it was last seen; those of ended tasks follow
	first      int       // the first row shown
	firstEnded int       // the same of those that have ended
	page       int       // how many rows were shown
	left       int       // columns of the commands that are not shown
	run        int       // the run of runs that is marked
	help       bool      // the keys are shown
	log        *log      // the output that is shown; nil for none
	ask        *question // waits for an answer; nil for none
	message    string    // what there is to say, until the next key
}

// row is a running task.
type row struct {
	control.Where
	usage
	measured bool
}

// name returns what the table calls the task.
func (r *row) name() string { return cmp.Or(string(r.Tag), string(r.Command)) }

// record returns the task's record if its name does not tell that.
func (r *row) record() string {
	if r.Tag != "" {
		return ""
	}
	return string(r.Record)
}

// question asks for consent before a command is sent.
type question struct {
	question string
	yes      func()
}

// order is the key that tasks are sorted by.
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
	keptRates = 1000                  // looks; more than any terminal has columns
	patience  = 3 * time.Second       // until the run counts as silent
	again     = 50 * time.Millisecond // until it is asked again after an error
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
	v.ended = slices.DeleteFunc(slices.Clone(s.Ended), func(w control.Where) bool {
		return slices.ContainsFunc(s.Tasks, func(t control.Where) bool { return t.Task == w.Task })
	})
	v.sort()
}

// sort puts the tasks in order. If the chosen one has ended, the one that has its
// place is chosen.
func (v *view) sort() {
	slices.SortStableFunc(v.tasks, func(a, b row) int {
		by := 0
		switch v.order {
		case byAge:
			by = cmp.Compare(b.Duration, a.Duration)
		case byCPU:
			by = cmp.Compare(b.cpu, a.cpu)
		case byMemory:
			by = cmp.Compare(b.memory, a.memory)
		}
		return cmp.Or(by, cmp.Compare(a.Worker, b.Worker), cmp.Compare(a.Task, b.Task))
	})
	v.choose(v.chosenRow())
}

// rows returns how many tasks can be chosen.
func (v *view) rows() int { return len(v.tasks) + len(v.ended) }

// chosenRow returns the row of the chosen task or, if that is gone, its place.
func (v *view) chosenRow() int {
	last := v.rows() - 1
	if v.past {
		for i := range v.ended {
			if v.ended[i].Task == v.chosen {
				return len(v.tasks) + i
			}
		}
	} else {
		for i := range v.tasks {
			if v.tasks[i].Task == v.chosen {
				return i
			}
		}
		if n := len(v.tasks); n > 0 {
			last = n - 1
		}
	}
	return max(0, min(v.place, last))
}

// choose chooses the task of a row, or the next one that exists.
func (v *view) choose(row int) {
	v.place = max(0, min(row, v.rows()-1))
	v.past = v.place >= len(v.tasks) && len(v.ended) > 0
	p, _ := v.at(v.place)
	v.chosen = p.id
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
