package wiring

import (
	"context"

	"crew/runner"
	"crew/runner/sink"
	"crew/runner/task"
)

// announce returns exec such that v prints each command before it runs.
func announce(exec runner.Executor, v sink.Verbose) runner.Executor {
	n := announced{exec, v}
	if s, ok := exec.(runner.Streamer); ok {
		return announcedStream{s, n}
	}
	return n
}

type announced struct {
	runner.Executor
	verbose sink.Verbose
}

func (n announced) Run(ctx context.Context, a task.Attempt) *task.Result {
	if ctx.Err() == nil {
		n.verbose.Before(a)
	}
	return n.Executor.Run(ctx, a)
}

type announcedStream struct {
	runner.Streamer
	announced announced
}

func (n announcedStream) Run(ctx context.Context, a task.Attempt) *task.Result {
	return n.announced.Run(ctx, a)
}

func (n announcedStream) Serve(slot task.Slot, swap task.Swap) {
	n.Streamer.Serve(slot, func(ended []*task.Result) ([]task.Attempt, task.Left) {
		next, left := swap(ended)
		n.announced.verbose.Before(next...)
		return next, left
	})
}
