package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"crew/runner/task"
	"crew/runner/wiring"
)

// shown is a function that writes.
type shown func([]byte) (int, error)

func (s shown) Write(p []byte) (int, error) { return s(p) }

// showLog prints what a task of a run that was handed over has written so far.
func (s *session) showLog(c *wiring.EngineCall) error {
	a := &attached{s: s, told: &once{notice: c.Notice}, ctx: context.Background()}
	a.news.L = &a.mu
	if err := a.open(c.Operand); err != nil {
		return err
	}
	id := c.Tasks[0]
	if id > a.run.Tasks {
		return fmt.Errorf("run %s has no task %d, but %s", a.run.Run, id, task.Count(int64(a.run.Tasks), "task"))
	}
	var printed [2]int64
	ended, err := a.printEnded(id, c.Out, &printed)
	if !ended && err == nil {
		err = a.printLive(id, c.Out, &printed)
		if errors.Is(err, errNotUnderWay) { // it has ended meanwhile, or has not begun
			if ended, err = a.printEnded(id, c.Out, &printed); !ended && err == nil {
				err = fmt.Errorf("run %s does not tell of task %d: it has not begun", a.run.Run, id)
			}
		}
	}
	return err
}

// printEnded prints what a task that has finished has written beyond what is printed.
func (a *attached) printEnded(id uint64, out *os.File, printed *[2]int64) (ended bool, err error) {
	lines := bufio.NewReader(a.file(rulingsFile, 0))
	for {
		var r Ruling
		if _, err := readLine(lines, &r); err == io.EOF {
			return false, nil
		} else if err != nil {
			return false, err
		}
		if !r.Ends || r.Task != id {
			continue
		}
		_, err = io.CopyN(out, a.file(outputsFile, r.At+printed[0]), max(0, r.Stdout-printed[0]))
		if err == nil {
			_, err = io.CopyN(os.Stderr, a.file(outputsFile, r.At+r.Stdout+printed[1]), max(0, r.Stderr-printed[1]))
		}
		return true, err
	}
}

var errNotUnderWay = errors.New("it is not under way")

// printLive prints what a task that runs has written so far.
func (a *attached) printLive(id uint64, out *os.File, printed *[2]int64) error {
	for i, to := range []*os.File{out, os.Stderr} {
		for {
			ctx, cancel := context.WithTimeout(a.ctx, 2*answerWait)
			answer, err := a.s.askRun(ctx, a.run, Order{Op: opLog, ID: ID{Run: a.run.Run, Task: id}, File: []string{"stdout", "stderr"}[i], At: printed[i]})
			cancel()
			switch {
			case err != nil:
				return fmt.Errorf("run %s does not tell of task %d: %w", a.run.Run, id, err)
			case answer.Err != "":
				return errNotUnderWay
			}
			n, err := to.Write(answer.Data)
			if printed[i] += int64(n); err != nil {
				return err
			}
			if len(answer.Data) == 0 {
				break
			}
		}
	}
	return nil
}
