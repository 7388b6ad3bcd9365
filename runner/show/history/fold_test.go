package history

import (
	"fmt"
	"time"

	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func sec(n float64) time.Time { return epoch.Add(time.Duration(n * 1e9)) }

// began, read, runs and ends are lines; at and took are in seconds.
func beganAt(at float64, command string) *Line {
	return &Line{Event: control.Event{Name: Began, At: sec(at), Text: command}}
}

func said(name string, at float64) *Line {
	return &Line{Event: control.Event{Name: name, At: sec(at)}}
}

func about(name string, at float64, id uint64) *Line {
	l := said(name, at)
	l.Task, l.Command = id, task.Bytes(fmt.Sprint("do ", id))
	return l
}

func startedOn(worker int, at float64, id uint64, attempt int) *Line {
	l := about("started", at, id)
	l.Worker, l.Attempt, l.Start = worker, attempt, sec(at)
	return l
}

func endedAs(name string, o task.Outcome, worker int, from, to float64, id uint64, attempt int) *Line {
	l := about(name, to, id)
	l.Worker, l.Attempt, l.Start, l.Outcome, l.Duration = worker, attempt, sec(from), o, task.Seconds((to-from)*1e9)
	if o == task.Exit {
		code := 3
		l.Exit, l.Output = &code, []byte(fmt.Sprintf("no %d.%d\n", id, attempt))
	}
	return l
}
