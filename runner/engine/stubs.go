package engine

import (
	"errors"
	"os"

	"crew/runner/cli"
)

var errLater = errors.New("not built yet")

// Submit returns the executor of a run.
func Submit(cli.Submission) (cli.Executor, error) { return nil, errLater }

// Work returns a worker.
func Work(cli.Work) (cli.Worker, error) { return nil, errLater }

// Main runs crew engine.
func Main(args []string, stdin, stdout, stderr *os.File) int { return 1 }
