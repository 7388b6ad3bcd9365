package sink

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
)

// TestFailuresDoNotFlood has a line for each of the first failures, and then one now and
// then for several.
func TestFailuresDoNotFlood(t *testing.T) {
	t.Setenv("FORCE_COLOR", "")
	var err bytes.Buffer
	f := NewFailures(NewScreen(&bytes.Buffer{}, &err))
	now := time.Unix(0, 0)
	f.now = func() time.Time { return now }
	id := uint64(0)
	fail := func(n int, r task.Result) string {
		err.Reset()
		var events []task.Event
		for range n {
			id++
			e := ended(id, r)
			e.Task.Records = [][]string{{fmt.Sprint("r", id)}}
			events = append(events, e)
		}
		require.NoError(t, f.Consume(events))
		return regexp.MustCompile(` after [^:\n]*`).ReplaceAllString(err.String(), "")
	}
	bad := task.Result{Outcome: task.Exit, Code: 7}
	require.Equal(t, "crew: task 1 failed: exit 7: r1\ncrew: task 2 failed: exit 7: r2\n", fail(2, bad))
	for _, quiet := range []task.Result{
		{Outcome: task.OK}, {Outcome: task.Skipped}, {Outcome: task.Cancelled}, {Outcome: task.NotRun}, {Outcome: task.StartFailed, BadCommand: true},
	} {
		require.Empty(t, fail(1, quiet))
	}
	require.Equal(t, failuresFirst-2, strings.Count(fail(5000, bad), "\n"))
	require.Empty(t, fail(3, bad))
	now = now.Add(failuresEvery)
	require.Equal(t, "crew: 4995 more tasks failed\n", fail(0, bad))
	require.Empty(t, fail(1, bad))
	now = now.Add(failuresEvery)
	require.Equal(t, "crew: task 5011 failed: exit 7: r5011\n", fail(0, bad))
	now = now.Add(failuresEvery)
	require.Empty(t, fail(0, bad))
	require.Equal(t, "crew: task 5012 failed: exit 7: r5012\n", fail(1, bad))
	require.NoError(t, f.Close(task.Stats{}))
}

func TestColours(t *testing.T) {
	crewtest.Examples(t, "testdata/colours.jsonl", func(t *testing.T, c struct {
		Env            string
		Terminal, File bool
	}) {
		env := map[string]string{}
		for s := range strings.FieldsSeq(c.Env) {
			name, value, _ := strings.Cut(s, "=")
			env[name] = value
		}
		getenv := func(name string) string { return env[name] }
		require.Equal(t, c.Terminal, colours(getenv, true))
		require.Equal(t, c.File, colours(getenv, false))
	})
}

func TestColouredAfter(t *testing.T) {
	for text, want := range map[string]bool{
		"\x1b[31mred": true, "\x1b[31mred\x1b[0m": false, "\x1b[1;31mred\x1b[m\x1b[K\n": false,
		"\x1b[0;1mbold": true, "\x1b[38;5;0mblack": true, "a\x1b": true, "\x1b[0m\x1b[3": true, "\x1b[00;00m": false,
	} {
		require.Equal(t, want, colouredAfter([]byte(text), !want), "%q", text)
	}
	for _, text := range []string{"", "plain", "\x1b[2J\x1b[1A", "\x1b]0;title\a"} {
		require.True(t, colouredAfter([]byte(text), true))
		require.False(t, colouredAfter([]byte(text), false))
	}
}
