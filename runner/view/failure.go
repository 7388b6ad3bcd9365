package view

import (
	"fmt"

	"crew/runner/history"
	"crew/runner/task"
)

// failure is a failed task in the words of the page.
type failure struct {
	ID      string // of the element
	Task    uint64
	Kind    string
	Verdict string
	Command string
	About   []string // its key, place and time, and how the attempts before failed
	Output  string
	Note    string // why there is no output
}

func failuresOf(r *history.Report) (all []failure) {
	for i := range r.Failed.List {
		all = append(all, failureOf(r, &r.Failed.List[i]))
	}
	return all
}

func failureOf(r *history.Report, e *history.Ended) failure {
	f := failure{
		ID: fmt.Sprintf("f%d-%d", e.Run, e.Task), Task: e.Task, Kind: kind(e.Outcome), Verdict: verdict(e.Facts),
		Command: show(e.Command), Output: lines(e.Output),
	}
	if len(r.Runs) > 1 && e.Run < len(r.Runs) {
		f.About = append(f.About, "run "+show(r.Runs[e.Run].Source))
	}
	if e.Key != "" {
		f.About = append(f.About, "key "+show(e.Key))
	}
	if where := place(e.Facts); where != "" {
		f.About = append(f.About, where)
	}
	if !e.Start.IsZero() {
		f.About = append(f.About, "began "+task.Moment(e.Start))
	}
	for _, before := range e.Earlier {
		f.About = append(f.About, fmt.Sprintf("attempt %d: %s", before.Attempt, verdict(before)))
	}
	switch {
	case e.Output == nil:
		f.Note = "Its output is not known."
	case f.Output == "":
		f.Note = "It wrote nothing."
	}
	return f
}

// leftOut says what the page does not have. A live one can ask for outputs.
func leftOut(r *history.Report, live string) (all []string) {
	add := func(n int64, format string, args ...any) {
		if n > 0 {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	n := int64(len(r.Attempts.List))
	add(r.Attempts.More, "The timeline and the list of tasks have %s of %s attempts: the failures, the longest, and an even sample of the others.", count(n), count(n+r.Attempts.More))
	add(r.Failed.More, "%s more tasks failed than are listed.", count(r.Failed.More))
	unknown := int64(0)
	for _, e := range r.Failed.List {
		if e.Output == nil && live == "" {
			unknown++
		}
	}
	add(unknown, "The output of %s is unknown.", task.Count(unknown, "failed task"))
	add(int64(len(r.Runs)-mostRuns), "The table of runs lacks all but the last %d.", mostRuns)
	add(r.Flaky.More, "%s more tasks were flaky than are listed.", count(r.Flaky.More))
	for _, table := range []named[history.Groups]{{"keys", r.Keys}, {"commands", r.Commands}, {"hosts", r.Hosts}} {
		lacks := table.Of.Rest
		add(lacks, "The table of %s lacks those of %s.", table.Name, task.Count(lacks, "task"))
	}
	switch {
	case r.Missed > 0:
		add(r.Missed, "%s were missed, such as tasks that ended before the run was watched: no figure has them.", task.Count(r.Missed, "event"))
	case all != nil:
		all = append(all, "The figures and the tables are of everything.")
	}
	return all
}
