package sink

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// page is a pair of streams, and both of them mixed as on a terminal.
type page struct {
	out, err, both bytes.Buffer
}

func (p *page) screen() *Screen {
	return NewScreen(io.MultiWriter(&p.out, &p.both), io.MultiWriter(&p.err, &p.both))
}

func newStore(t testing.TB, limit int64) *spool.Store {
	s := spool.New(limit, t.TempDir())
	t.Cleanup(func() { s.Close() })
	return s
}

// kept returns text as a task's output.
func kept(t testing.TB, s *spool.Store, text string) task.Output {
	if text == "" {
		return nil
	}
	b := s.Buffer()
	_, err := b.Write([]byte(text))
	require.NoError(t, err)
	return b
}

// spoken returns the Finished event of a task with output.
func spoken(t testing.TB, s *spool.Store, id uint64, out, err string) task.Event {
	e := ended(id, task.Result{Outcome: task.OK, Stdout: kept(t, s, out), Stderr: kept(t, s, err)})
	e.Task.Tag = fmt.Sprintf("t%d", id)
	return e
}

func released(ids ...uint64) []task.Event {
	var events []task.Event
	for _, id := range ids {
		events = append(events, task.Event{Kind: task.Released, ID: id, Last: id})
	}
	return events
}

// consume acts as the pump: it closes outputs after the batch.
func consume(t testing.TB, s *Stdout, events ...task.Event) {
	t.Helper()
	require.NoError(t, s.Consume(events))
	for _, e := range events {
		if e.Result != nil {
			e.Result.Close()
		}
	}
}

// written returns the outputs of tasks from their objects.
func written(t *testing.T, objects string) (stdout, stderr string) {
	for line := range strings.Lines(objects) {
		var o struct{ Stdout, Stderr string }
		require.NoError(t, json.Unmarshal([]byte(line), &o))
		stdout, stderr = stdout+o.Stdout, stderr+o.Stderr
	}
	return stdout, stderr
}

// TestFullSpoolStopsTheRun checks that an error of the spool is returned, of lines to their writer,
// and that held output is still shown.
func TestFullSpoolStopsTheRun(t *testing.T) {
	gone := spool.New(0, t.TempDir())
	gone.Close()
	var p page
	s := NewStdout(p.screen(), StdoutConfig{Plan: task.Plan{Order: true}, Store: gone})
	want := ""
	var failed error
	for id := uint64(2); id < 30; id++ {
		text := strings.Repeat(string(rune('a'+id%26)), 20_000)
		want += text
		failed = s.Consume([]task.Event{spoken(t, newStore(t, 1<<20), id, text, "")})
	}
	require.Error(t, failed)
	for id := range uint64(30) {
		require.Error(t, s.Consume(released(id+1)))
	}
	require.True(t, want == p.out.String())

	for _, line := range []string{"waits\n", "waits"} {
		s := NewStdout(p.screen(), StdoutConfig{Plan: task.Plan{Show: task.ShowLines, Order: true}, Store: gone})
		out, _ := s.Open(task.Attempt{Task: &task.Task{ID: 2}})
		_, err := io.WriteString(out, line)
		require.Error(t, err)
	}
}

// lineEnds counts the writes that end a line, and the others.
type lineEnds map[bool]int

func (l lineEnds) Write(p []byte) (int, error) {
	l[p[len(p)-1] == '\n']++
	return len(p), nil
}

func TestOutputsAreNotSplitBetweenWrites(t *testing.T) {
	for _, plan := range []task.Plan{{}, {Tag: true}, {Order: true}, {Show: task.ShowObjects}} {
		out := lineEnds{}
		s := NewStdout(NewScreen(out, io.Discard), StdoutConfig{Plan: plan, Store: newStore(t, 1<<20)})
		var events []task.Event
		for id := uint64(1); id < 30; id++ {
			events = append(events, spoken(t, newStore(t, 1<<20), id, strings.Repeat("x", 20_000)+"\n", ""))
		}
		consume(t, s, append(events, task.Event{Kind: task.Released, ID: 1, Last: 29})...)
		require.Less(t, 1, out[true])
		require.Less(t, out[true], 15)
		require.Zero(t, out[false])
	}
}
