// Package runner runs tasks: it starts the goroutines of a run, is the loop
// between them, and owns the run's state machine.
package runner

import (
	"context"

	"crew/runner/task"
)

// Source gives tasks, in input order, numbered from 1 without a gap. Next
// blocks until there is one and is called by one goroutine. io.EOF ends the
// input; any other error ends it too and fails the run after what came before
// has run.
type Source interface {
	Next() (*task.Task, error)
}

// Executor runs one attempt and blocks until it is over; it never retries.
// Every way to fail is an Outcome of the result. When ctx is done the attempt
// is ended with its grace, when a.Kill is closed at once. It is called from
// many goroutines.
type Executor interface {
	Run(ctx context.Context, a task.Attempt) *task.Result
}

// Sink takes what happened, in order, a batch at a time, from one goroutine.
// An error from Consume stops the run. Close is called once, after the last
// batch.
type Sink interface {
	Consume([]task.Event) error
	Close(task.Stats) error
}
