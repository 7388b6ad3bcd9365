package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/control"
	"crew/runner/task"
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

func fold(lines ...*Line) *Fold {
	f := NewFold()
	for _, l := range lines {
		f.Add(l)
	}
	return f
}

func TestFoldTellsWhatARunDid(t *testing.T) {
	blocked := said("blocked", 3)
	blocked.Blocking = &task.Blocking{By: "retry", Shown: "1 task waits for its retry"}
	resized := said("resized", 0)
	resized.Workers = 2
	f := fold(beganAt(0, "crew do"), resized,
		about("admitted", 0, 1), about("admitted", 0, 2), startedOn(1, 0, 1, 1), startedOn(2, 1, 2, 1), said("input-end", 1),
		endedAs("finished", task.OK, 1, 0, 2, 1, 1), endedAs("retried", task.Exit, 2, 1, 3, 2, 1), blocked,
		said("blocked", 5), startedOn(2, 5, 2, 2))
	r := f.Report()
	require.False(t, r.Runs[0].Ended)
	require.Equal(t, "crew do", r.Title)
	require.Equal(t, []float64{2000, 2000, -1}, r.Attempts.Took)
	require.Equal(t, []float64{0, 1000, 2000}, r.Attempts.Waited)
	require.Equal(t, []task.Outcome{task.OK, task.Exit, 0}, r.Attempts.Outcome)
	require.Equal(t, []bool{true, false, false}, r.Attempts.Final)
	require.Equal(t, []int32{0, 3, 0}, r.Attempts.Code)
	require.Equal(t, []Lane{{Worker: 1}, {Worker: 2}}, r.Attempts.Lanes)
	require.Equal(t, []int32{0, 1, 1}, r.Attempts.Lane)
	require.Equal(t, []Blocked{{From: sec(3), To: sec(5), By: "retry", Text: "1 task waits for its retry"}}, r.Blocked)

	f.Add(endedAs("finished", task.OK, 2, 5, 9, 2, 2))
	was := *r
	r = f.Report()
	require.Equal(t, []float64{2000, 2000, -1}, was.Attempts.Took)
	require.True(t, r.Runs[0].Ended)
	require.Equal(t, 2, r.Runs[0].Workers)
	require.Equal(t, sec(9), r.Runs[0].End)
	require.Equal(t, []float64{2000, 2000, 4000}, r.Attempts.Took)
	want := Figures{Tasks: 2, Flaky: 1, Retries: 1, Mean: 3 * time.Second, Median: r.Total.Median, P95: 4 * time.Second, Most: 4 * time.Second, Time: 6 * time.Second}
	require.Equal(t, want, r.Total)
	require.InEpsilon(t, 2*time.Second, r.Total.Median, 0.04)
	require.Len(t, r.Flaky.List, 1)
	require.Equal(t, "no 2.1\n", string(r.Flaky.List[0].Output))
	require.Equal(t, task.Exit, r.Flaky.List[0].Earlier[0].Outcome)
	require.Equal(t, uint64(2), r.Slowest.List[0].Task)
}
