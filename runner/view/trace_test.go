package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"crew/runner/control"
	"crew/runner/history"
	"crew/runner/task"
)

var traceBegin = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// traced is an event that was written.
type traced struct {
	Name, Cat, Ph, BP string
	TS, Dur           float64
	PID, TID, ID      int
	Args              map[string]any
}

func traceLine(name string, at time.Duration, id uint64) *history.Line {
	l := &history.Line{Event: control.Event{Name: name, At: traceBegin.Add(at)}}
	l.Task, l.Command = id, task.Bytes(fmt.Sprint("do ", id))
	return l
}

func traceEnd(name string, o task.Outcome, worker int, from, took time.Duration, id uint64, attempt int) *history.Line {
	l := traceLine(name, from+took, id)
	l.Start, l.Duration, l.Worker, l.Attempt, l.Outcome = traceBegin.Add(from), task.Seconds(took), worker, attempt, o
	return l
}

func traceStart(worker int, at time.Duration, id uint64, attempt int) *history.Line {
	l := traceLine("started", at, id)
	l.Worker, l.Attempt, l.Start = worker, attempt, traceBegin.Add(at)
	return l
}

// traceOf returns what is written of lines, and the events in it. It checks what all
// traces must hold to.
func traceOf(t *testing.T, lines []*history.Line) ([]byte, []traced) {
	var b bytes.Buffer
	tr := NewTrace(&b)
	for _, l := range lines {
		tr.Add(l)
	}
	require.NoError(t, tr.Close())
	require.True(t, utf8.Valid(b.Bytes()))
	var out struct{ TraceEvents []traced }
	require.NoError(t, json.Unmarshal(b.Bytes(), &out))
	type thread struct{ pid, tid int }
	ends, named := map[thread][][2]float64{}, map[thread]bool{}
	for _, e := range out.TraceEvents {
		at := thread{e.PID, e.TID}
		require.GreaterOrEqual(t, e.TS, 0.0)
		require.Positive(t, e.PID)
		switch e.Ph {
		case "X":
			require.GreaterOrEqual(t, e.Dur, 0.0)
			require.NotEmpty(t, e.Name)
			require.True(t, named[at], "an event comes after the name of its thread")
			ends[at] = append(ends[at], [2]float64{e.TS, e.TS + e.Dur})
		case "M":
			named[at] = named[at] || e.Name == "thread_name"
		case "s", "f":
			require.True(t, slices.ContainsFunc(ends[at], func(x [2]float64) bool { return x[0] <= e.TS && e.TS <= x[1] }))
		}
	}
	for _, list := range ends {
		slices.SortFunc(list, func(a, b [2]float64) int { return slices.Compare(a[:], b[:]) })
		for i := range len(list) - 1 {
			require.LessOrEqual(t, list[i][1], list[i+1][0]+1e-4, "they overlap")
		}
	}
	return b.Bytes(), out.TraceEvents
}

func attempts(events []traced) (list []traced) {
	for _, e := range events {
		if e.Ph == "X" {
			list = append(list, e)
		}
	}
	return list
}

func TestTraceTellsWhatARunDid(t *testing.T) {
	const s = time.Second
	blocked := traceLine("blocked", 3*s, 0)
	blocked.Blocking = &task.Blocking{Shown: "1 task waits for its retry"}
	host := traceStart(3, s, 3, 1)
	host.Host = "far"
	failed := traceEnd("retried", task.Exit, 2, s, 2*s, 2, 1)
	three := 3
	failed.Exit = &three
	_, events := traceOf(t, []*history.Line{
		traceLine(history.Began, 0, 0), traceLine("admitted", 0, 1), traceLine("admitted", 0, 2), traceLine("admitted", 0, 3),
		traceStart(1, 0, 1, 1), traceStart(2, s, 2, 1), host, failed, blocked, traceLine("blocked", 5*s, 0),
		traceStart(2, 5*s, 2, 2), traceEnd("finished", task.OK, 2, 5*s, s, 2, 2), traceEnd("finished", task.OK, 1, 0, 8*s, 1, 1),
	})
	list := attempts(events)
	require.Len(t, list, 5)
	require.Equal(t, traced{
		Name: "do 2", Cat: "exit", Ph: "X", TS: 1e6, Dur: 2e6, PID: 1, TID: 2,
		Args: map[string]any{"task": 2.0, "attempt": 1.0, "exit": 3.0, "wait": 1.0, "command": "do 2"},
	}, list[0])
	require.Equal(t, []any{"1 task waits for its retry", 3e6, 2e6}, []any{list[1].Name, list[1].TS, list[1].Dur})
	require.Equal(t, []any{"do 2", "ok", 2, 2.0}, []any{list[2].Name, list[2].Cat, list[2].TID, list[2].Args["wait"]})
	require.Equal(t, []any{"do 3", "unknown", 2, 3, 7e6}, []any{list[4].Name, list[4].Cat, list[4].PID, list[4].TID, list[4].Dur})
	arrows, names := []traced{}, map[any]bool{}
	most := map[string]float64{}
	for _, e := range events {
		switch e.Ph {
		case "s", "f":
			arrows = append(arrows, e)
		case "M":
			names[e.Args["name"]] = true
		case "C":
			for name, n := range e.Args {
				most[name] = max(most[name], n.(float64))
			}
		}
	}
	require.Len(t, arrows, 2)
	require.Equal(t, arrows[0].ID, arrows[1].ID)
	require.InDelta(t, 3e6, arrows[0].TS, 0.01)
	require.Equal(t, []any{5e6, "e"}, []any{arrows[1].TS, arrows[1].BP})
	for _, name := range []string{"this machine", "far", "worker 1", "worker 2", "worker 3", "why nothing starts"} {
		require.True(t, names[name], name)
	}
	require.Equal(t, 3.0, most["running"])
}

// pool makes up what n workers did, as it ended. Without told, nobody says which worker it
// was, nor when something began.
func pool(rnd *rand.Rand, n, tasks int, told bool) (lines []*history.Line) {
	free := make([]time.Duration, n)
	for id := range uint64(tasks) {
		w := slices.Index(free, slices.Min(free))
		took := time.Duration(rnd.ExpFloat64() * 1e9)
		if rnd.IntN(20) == 0 {
			took *= 50
		}
		l := traceEnd("finished", task.OK, 0, free[w], took, id+1, 1)
		if told {
			l.Worker = w + 1
			lines = append(lines, traceStart(w+1, free[w], id+1, 1))
		}
		lines = append(lines, l)
		free[w] += took + time.Duration(rnd.IntN(1e6))
	}
	slices.SortStableFunc(lines, func(a, b *history.Line) int { return a.At.Compare(b.At) })
	return append([]*history.Line{traceLine(history.Began, 0, 0)}, lines...)
}

func TestTraceKeepsApartWhatOverlaps(t *testing.T) {
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		n := 1 + rnd.IntN(16)
		for _, told := range []bool{true, false} {
			lines := pool(rnd, n, 200, told)
			_, events := traceOf(t, lines)
			list, threads := attempts(events), map[int]bool{}
			require.Len(t, list, 200)
			for _, e := range list {
				threads[e.TID] = true
			}
			require.Len(t, threads, n, "told: %v", told)
			byStart := slices.Clone(lines)
			slices.SortStableFunc(byStart[1:], func(a, b *history.Line) int { return a.Start.Compare(b.Start) })
			if !told {
				rnd.Shuffle(len(byStart)-1, func(i, j int) { byStart[i+1], byStart[j+1] = byStart[j+1], byStart[i+1] })
				traceOf(t, byStart)
			}
		}
	}
}

// The results of --json tell the attempts of a task together.
func TestTraceOfAttemptsThatComeLate(t *testing.T) {
	const s = time.Second
	_, events := traceOf(t, []*history.Line{
		traceEnd("finished", task.OK, 1, 2*s, 3*s, 1, 1), traceEnd("finished", task.OK, 1, 6*s, s, 2, 1),
		traceEnd("retried", task.Exit, 1, 0, 2*s, 3, 1), traceEnd("finished", task.OK, 1, 5*s, s+s/1000, 3, 2),
		traceEnd("finished", task.OK, 1, 4*s, 2*s, 4, 1),
	})
	var threads []int
	for _, e := range attempts(events) {
		threads = append(threads, e.TID)
	}
	require.Equal(t, []int{1, 1, 1, 1, moreTID}, threads)
}

// Several attempts of a worker with places, two runs in one trace, and ends without a
// beginning.
func TestTraceOfOddLines(t *testing.T) {
	const s = time.Second
	_, events := traceOf(t, []*history.Line{
		traceLine(history.Began, 0, 0), traceStart(1, 0, 1, 1), traceStart(1, s, 2, 1), traceStart(1, s, 3, 1),
		traceEnd("finished", task.OK, 1, 0, 2*s, 1, 1), traceEnd("finished", task.OK, 1, s, 2*s, 2, 1),
		traceLine(history.Began, 3*s, 0), traceStart(1, 3*s, 1, 1), traceEnd("finished", task.OK, 1, 3*s, s, 1, 1),
		traceEnd("finished", task.OK, 1, -9*s, s, 9, 1), traceEnd("finished", task.OK, 2, -9*s, 20*s, 10, 1),
		{Event: control.Event{Name: "finished"}, Facts: task.Facts{Task: 4, Outcome: task.NotRun, Duration: 3}},
	})
	list := attempts(events)
	require.Len(t, list, 5, "that of an earlier run is not shown")
	require.Equal(t, []any{"unknown", 1e6, 2e6}, []any{list[2].Cat, list[2].TS, list[2].Dur})
	require.Equal(t, []any{0.0, 11e6}, []any{list[4].TS, list[4].Dur})
	_, events = traceOf(t, []*history.Line{traceEnd("finished", task.OK, 0, 5*s, s, 1, 1), traceEnd("finished", task.OK, 0, 0, 7*s, 2, 1)})
	list = attempts(events)
	require.Equal(t, 5e6, list[0].TS-list[1].TS)
	require.Equal(t, 7e6, list[1].Dur)
	_, events = traceOf(t, nil)
	require.Empty(t, events)
}

func TestTraceOfHostileTexts(t *testing.T) {
	l := traceEnd("finished", task.StartFailed, 1, 0, time.Second, 1, 1)
	l.Command, l.Key, l.Host, l.Error = "</script>\"\\\x00\x1b[31m\xff\u2028\u202e", "\xfe\n", "h\x00\"", "\x80\x7f"
	l.Command += task.Bytes(bytes.Repeat([]byte("\x01"), 5000))
	note := traceLine("notice", 0, 0)
	note.Text = "\xff\"\n"
	_, events := traceOf(t, []*history.Line{traceLine(history.Began, 0, 0), note, l})
	list := attempts(events)
	require.LessOrEqual(t, len(list[0].Name), 210)
	require.Contains(t, list[0].Name, `</script>"\\x00\x1b[31m\xff\u2028\u202e`)
	require.Equal(t, `\xfe\n`, list[0].Args["key"])
}

func TestTraceTellsTheFirstError(t *testing.T) {
	full := errors.New("full")
	r, w := io.Pipe()
	require.NoError(t, r.CloseWithError(full))
	tr := NewTrace(w)
	for _, l := range pool(rand.New(rand.NewPCG(1, 1)), 3, 100, true) {
		tr.Add(l)
	}
	require.Equal(t, full, tr.Close())
}

// The members that the description of the format requires for each kind of event.
const checkTrace = `
import json, sys
t = json.load(open(sys.argv[1], encoding="utf-8", errors="strict"))
need = {"X": ["name", "cat", "ts", "dur", "pid", "tid"], "M": ["name", "pid", "tid", "args"],
        "C": ["name", "ts", "pid", "args"], "s": ["name", "cat", "id", "ts", "pid", "tid"],
        "f": ["name", "cat", "id", "ts", "pid", "tid", "bp"], "i": ["name", "ts", "pid", "s"]}
meta = {"process_name": str, "thread_name": str, "process_sort_index": int, "thread_sort_index": int}
for e in t["traceEvents"]:
    for m in need[e["ph"]]:
        assert m in e, (m, e)
    for m in ("ts", "dur"):
        assert isinstance(e.get(m, 0), (int, float)), e
    for m in ("pid", "tid"):
        assert isinstance(e[m], int), e
    if e["ph"] == "M":
        value, = e["args"].values()
        assert isinstance(value, meta[e["name"]]), e
    if e["ph"] == "C":
        assert all(isinstance(n, (int, float)) for n in e["args"].values()), e
print(len(t["traceEvents"]))
`

func TestTraceIsReadByAnotherParser(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3")
	}
	lines := append(pool(rand.New(rand.NewPCG(2, 2)), 4, 200, true), traceEnd("retried", task.Exit, 1, 0, 1, 3, 1),
		traceEnd("finished", task.OK, 1, 5, 1, 3, 2), traceLine("draining", time.Hour, 0))
	text, events := traceOf(t, lines)
	file := filepath.Join(t.TempDir(), "trace.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	out, err := exec.Command(python, "-c", checkTrace, file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Equal(t, fmt.Sprintln(len(events)), string(out))
}
