package view

import (
	"fmt"

	"crew/runner/decide/task"
	"crew/runner/show/history"
)

// heading is the headline of a page, and the CSS class of its colour.
type heading struct{ Kind, Text string }

// headline returns the verdict on a report or, for a live page, the name of the run.
func headline(r *history.Report, live string) heading {
	if live != "" {
		return heading{"", show(runName(r))}
	}
	done, failed := r.Total.Tasks, r.Total.Failed
	dropped := r.Outcomes[task.Cancelled] + r.Outcomes[task.NotRun]
	in := ""
	switch len(r.Runs) {
	case 0:
		return heading{"", "Nothing to report"}
	case 1:
		if before := r.Runs[0].Before; before > 0 {
			in = fmt.Sprintf(", %s done before", count(before))
			done, failed = done+before, failed+r.Runs[0].FailedBefore
		}
	default:
		in = fmt.Sprintf(" in %d runs", len(r.Runs))
	}
	switch ended := r.Runs[len(r.Runs)-1].Ended; {
	case failed > 0 && !ended:
		return heading{"fail", fmt.Sprintf("Did not finish: %s ended%s, %s failed", tasks(done), in, count(failed))}
	case failed > 0:
		if in == "" { // otherwise tasks that are left may have failed in an earlier run
			done += r.Left
		}
		return heading{"fail", fmt.Sprintf("Failed: %s of %s%s", count(failed), tasks(done), in)}
	case !ended:
		return heading{"slow", fmt.Sprintf("Did not finish: %s ended%s", tasks(done), in)}
	case dropped+r.Left > 0:
		return heading{"slow", fmt.Sprintf("Not finished: %s of %s cancelled or not run%s", count(dropped+r.Left), tasks(done+r.Left), in)}
	case r.Runs[len(r.Runs)-1].Stopped != "":
		return heading{"slow", fmt.Sprintf("Ended early: %s passed%s", tasks(done), in)}
	case done == 0:
		return heading{"", "Nothing ran: there were no tasks"}
	}
	return heading{"ok", fmt.Sprintf("Passed: %s%s", tasks(done), in)}
}

// exitStatus says with which status the run of a report exited, or why it stopped early. It returns ""
// if the report cannot tell: --flaky-fail decides the status of a run with flaky tasks only.
func exitStatus(r *history.Report) string {
	if len(r.Runs) != 1 {
		return ""
	}
	switch run := r.Runs[0]; {
	case run.Stopped == history.UnknownReason:
		return "stopped early"
	case run.Stopped == "--deadline":
		return "exit status 124, stopped by --deadline"
	case run.Stopped != "":
		return "stopped early: " + show(run.Stopped)
	case !run.Complete:
	case r.Total.Failed+run.FailedBefore+r.Outcomes[task.Cancelled]+r.Outcomes[task.NotRun] > 0:
		return "exit status 123"
	case r.Total.Flaky == 0:
		return "exit status 0"
	}
	return ""
}

// runName returns the name of the run of a live page.
func runName(r *history.Report) string {
	if len(r.Runs) > 0 && r.Runs[0].Source != "" {
		return r.Runs[0].Source
	}
	return r.Title
}

func tasks(n int64) string {
	if n == 1 {
		return "1 task"
	}
	return count(n) + " tasks"
}

// isRepeated reports whether any group has several tasks. Figures of one task each repeat the list of
// tasks.
func isRepeated(g history.Groups) bool {
	for _, one := range g.List {
		if one.Tasks > 1 {
			return true
		}
	}
	return false
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
