package view

import (
	"fmt"
	"strings"

	"crew/runner/decide/task"
	"crew/runner/show/history"
)

// describe describes a failed task: its key, worker and start, and how its earlier attempts failed.
func describe(r *history.Report, e history.Ended) string {
	var all []string
	if len(r.Runs) > 1 && e.Run < len(r.Runs) {
		all = append(all, "run "+show(r.Runs[e.Run].Source))
	}
	if e.Key != "" {
		all = append(all, "key "+show(e.Key))
	}
	if where := place(e.Facts); where != "" {
		all = append(all, where)
	}
	if !e.Start.IsZero() {
		all = append(all, "began "+task.Moment(e.Start))
	}
	for _, before := range e.Earlier {
		all = append(all, fmt.Sprintf("attempt %d: %s", before.Attempt, verdict(before)))
	}
	return strings.Join(all, " · ")
}

// unknownOutputs counts the failed tasks whose output is unknown.
func unknownOutputs(r *history.Report) (n int64) {
	for _, e := range r.Failed.List {
		if e.Output == nil {
			n++
		}
	}
	return n
}

// isIncomplete reports whether the page is incomplete. Unknown outputs do not count on a live page, which
// can ask for them.
func isIncomplete(r *history.Report, live string) bool {
	rest := r.Keys.Rest + r.Commands.Rest + r.Hosts.Rest
	return r.Attempts.More+r.Failed.More+r.Flaky.More+r.Missed+rest > 0 || len(r.Runs) > mostRuns || live == "" && unknownOutputs(r) > 0
}

// mostOpen is the number of failures up to which a report shows all of their outputs at first.
const mostOpen = 3

// failure is a failed task on a page. Open ones show their output at first.
type failure struct {
	history.Ended
	Open bool
}

// failures returns the failed tasks to list: on a live page the latest first, otherwise in their order. The
// first shows its output. In a report, all do if there are only few.
func failures(r *history.Report, live string) (all []failure) {
	n := len(r.Failed.List)
	for i := range r.Failed.List {
		if live != "" {
			all = append(all, failure{r.Failed.List[n-1-i], i == 0})
		} else {
			all = append(all, failure{r.Failed.List[i], n <= mostOpen || i == 0})
		}
	}
	return all
}
