package engine

import (
	"errors"

	"crew/runner/cli"
)

var errLater = errors.New("not built yet")

// Submit returns the executor of a run.
func Submit(cli.Submission) (cli.Executor, error) { return nil, errLater }

// Work returns a worker.
func Work(cli.Work) (cli.Worker, error) { return nil, errLater }
