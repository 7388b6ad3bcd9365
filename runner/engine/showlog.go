package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"crew/runner/proc"
	"crew/runner/task"
	"crew/runner/wiring"
)

// showLog prints what a task of a run that was handed over has written so far.
func (s *session) showLog(c *wiring.EngineCall) error {
	var failed error
	show := func(f *os.File) io.WriteCloser {
		return shown(func(p []byte) (n int, err error) {
			if n, err = f.Write(p); failed == nil {
				failed = err
			}
			return n, err
		})
	}
	a := &attached{s: s, told: &once{notice: c.Notice}, cache: map[uint64][][]byte{}, ctx: context.Background(), intake: intake{Outputs: proc.Outputs{
		Plan: task.Plan{Show: task.ShowLines}, Open: func(task.Attempt) (io.WriteCloser, io.WriteCloser) { return show(c.Out), show(os.Stderr) },
	}}}
	if err := a.open(c.Operand); err != nil {
		return err
	}
	id := c.Tasks[0]
	if id > a.run.Tasks {
		return fmt.Errorf("run %s has no task %d, but %s", a.run.Run, id, task.Count(int64(a.run.Tasks), "task"))
	}
	places, err := a.partsOf(id)
	if err == nil {
		err = a.collect(a.ctx, task.Attempt{Task: &task.Task{ID: id}}, &outputs{}, places)
	}
	return errors.Join(err, failed)
}

// shown is a function that writes.
type shown func([]byte) (int, error)

func (s shown) Write(p []byte) (int, error) { return s(p) }

func (s shown) Close() error { return nil }

// partsOf returns where the messages of a task are, as far as they have come.
func (a *attached) partsOf(id uint64) ([]Place, error) {
	for {
		part, _, err := a.rulings.next(a.ctx, a.told)
		if err == io.EOF {
			break
		}
		var r *Ruling
		if err == nil {
			r, err = a.s.ruling(a.ctx, a.told, part)
		}
		if err != nil {
			return nil, err
		}
		if r.What == ruledFinished && r.Task == id {
			return r.Parts, nil
		}
	}
	ctx, cancel := context.WithTimeout(a.ctx, 2*answerWait)
	defer cancel()
	answer, err := a.s.askRun(ctx, a.run, Order{Op: opLog, ID: ID{Run: a.run.Run, Task: id}})
	if err == nil && answer.Err != "" {
		err = errors.New(answer.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("run %s does not tell of task %d: %w", a.run.Run, id, err)
	}
	return answer.Parts, nil
}
