package wiring

import (
	"crew/runner"
	"crew/runner/sink"
	"crew/runner/task"
)

// announced is a Recorder that prints each command before it runs.
type announced struct {
	runner.Recorder
	verbose sink.Verbose
}

func (n announced) Started(a task.Attempt, more bool) {
	n.verbose.Before(a)
	n.Recorder.Started(a, more)
}

// unrecorded is the Recorder of a run that needs none.
type unrecorded struct{}

func (unrecorded) Started(task.Attempt, bool)             {}
func (unrecorded) Ended(task.Attempt, *task.Result, bool) {}
func (unrecorded) Idle()                                  {}
