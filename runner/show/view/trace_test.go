package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/show/history"
)

// traced is an event that was written.
type traced struct {
	Name, Ph string
	TS, Dur  float64
	PID, TID int
	Args     map[string]any
}

// traceOf returns the trace of lines and the attempts in it, and checks the invariants of traces.
func traceOf(t *testing.T, lines []*history.Line) (text string, attempts []traced) {
	var b bytes.Buffer
	tr := NewTrace(&b, history.NewFold())
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
			require.True(t, named[at] && e.Name != "" && e.Dur >= 0, "an event comes after the name of its thread")
			ends[at] = append(ends[at], [2]float64{e.TS, e.TS + e.Dur})
			attempts = append(attempts, e)
		case "M":
			named[at] = named[at] || e.Name == "thread_name"
		}
	}
	for _, list := range ends {
		slices.SortFunc(list, func(a, b [2]float64) int { return slices.Compare(a[:], b[:]) })
		for i := range len(list) - 1 {
			require.LessOrEqual(t, list[i][1], list[i+1][0]+1e-4, "they overlap")
		}
	}
	return b.String(), attempts
}

// TestTraces writes the lines of each example of testdata/trace.txt, and compares what comes after "--".
func TestTraces(t *testing.T) {
	for _, example := range strings.Split("\n"+crewtest.ReadFile(t, "testdata/trace.txt"), "\n== ")[1:] {
		title, example, _ := strings.Cut(example, "\n")
		t.Run(title, func(t *testing.T) {
			in, want, _ := strings.Cut(example, "--\n")
			var lines []*history.Line
			for line := range strings.Lines(in) {
				l := &history.Line{}
				require.NoError(t, json.Unmarshal([]byte(line), l), line)
				lines = append(lines, l)
			}
			got, _ := traceOf(t, lines)
			require.Equal(t, strings.TrimSpace(want), strings.TrimSpace(got))
		})
	}
}

// TestTraceKeepsApartWhatOverlaps checks that attempts of a row do not overlap, and that there are no
// more rows than workers, whatever the order of the lines.
func TestTraceKeepsApartWhatOverlaps(t *testing.T) {
	lines := played(400, 0)
	ended := slices.DeleteFunc(slices.Clone(lines), func(l *history.Line) bool { return l.Outcome == task.Outcome(0) })
	rows := map[[2]int]bool{}
	_, list := traceOf(t, lines)
	for _, e := range list {
		rows[[2]int{e.PID, e.TID}] = true
	}
	require.LessOrEqual(t, len(rows), len(madeHosts)*madeWorkers+1)
	for seed := range uint64(8) {
		rand.New(rand.NewPCG(seed, 1)).Shuffle(len(ended), func(i, j int) { ended[i], ended[j] = ended[j], ended[i] })
		for _, l := range ended[:seed*40] { // without their workers
			l.Worker = 0
		}
		_, list := traceOf(t, ended)
		require.Len(t, list, len(ended))
	}
}

func TestTraceTellsTheFirstError(t *testing.T) {
	full := errors.New("full")
	r, w := io.Pipe()
	require.NoError(t, r.CloseWithError(full))
	tr := NewTrace(w, history.NewFold())
	for _, l := range played(100, 0) {
		tr.Add(l)
	}
	require.Equal(t, full, tr.Close())
}
