package sink

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// ended returns the Finished event of a task.
func ended(id uint64, r task.Result) task.Event {
	t := &task.Task{ID: id, Argv: []string{"job", "a b"}, Records: [][]string{{"a b"}}}
	if r.Start.IsZero() {
		r.Start, r.End = dawn, dawn.Add(210*time.Millisecond)
	}
	if r.Attempt == 0 {
		r.Attempt = 1
	}
	r.Task = t
	return task.Event{Kind: task.Finished, At: dawn, ID: id, Task: t, Result: &r, Attempt: r.Attempt}
}

// skippedEvent returns the Finished event of a task that was up to date.
func skippedEvent(id uint64) task.Event {
	e := ended(id, task.Result{Outcome: task.Skipped})
	e.Task.Makes = &task.Making{Targets: []task.Target{{Path: "a b.png"}, {Path: "b.png"}}}
	e.Result.Attempt, e.Result.Start, e.Result.End, e.Attempt = 0, time.Time{}, time.Time{}, 0
	return e
}

// digestOf returns the digest of a run with these events.
func digestOf(t *testing.T, cfg RerunConfig, events ...task.Event) string {
	var err bytes.Buffer
	d := NewDigest(NewScreen(io.Discard, &err), Input{}, cfg)
	closeDigest(t, d, events)
	return err.String()
}

func closeDigest(t *testing.T, d *Digest, events []task.Event) {
	var s task.Stats
	s.Apply(&task.Event{At: dawn, Kind: task.Resized, Slot: 2})
	for _, e := range events {
		if e.Kind == task.Finished {
			s.Apply(&task.Event{At: dawn, Kind: task.Admitted})
			s.Apply(&task.Event{At: dawn, Kind: task.Started})
		}
		s.Apply(&e)
	}
	s.Running, s.InputEnd = 0, s.InputEnd || !s.Draining
	s.Last = dawn.Add(3200 * time.Millisecond)
	require.NoError(t, d.Consume(events))
	require.NoError(t, d.Close(s))
}

// brokenOutput is an output that cannot be read.
type brokenOutput struct{ spool.Text }

func (brokenOutput) ReadAt([]byte, int64) (int, error) { return 0, os.ErrClosed }

func (brokenOutput) WriteTo(io.Writer) (int64, error) { return 0, os.ErrClosed }
