package main

import (
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/steer/control"
)

// keyed returns an app that shows busy tasks, after some keys. Its requests stay in the channel.
func keyed(t *testing.T, tasks int, keys string) *app {
	s := tcell.NewSimulationScreen("UTF-8")
	require.NoError(t, s.Init())
	t.Cleanup(s.Fini)
	a := newApp(s)
	a.view, a.page = *busy(tasks), 10
	a.follow = func(l *log) { l.add([]byte("output\n"), false) }
	press(a, keys)
	return a
}

func press(a *app, keys string) {
	special := map[rune]tcell.Key{
		'U': tcell.KeyUp, 'D': tcell.KeyDown, 'P': tcell.KeyPgDn, 'u': tcell.KeyPgUp, 'E': tcell.KeyEnd, 'R': tcell.KeyRight, '^': tcell.KeyEscape,
	}
	for _, r := range keys {
		if k, ok := special[r]; ok {
			a.key(k, 0)
		} else {
			a.key(tcell.KeyRune, r)
		}
	}
}

// asked returns the requests of an app.
func (a *app) asked() (asked []control.Request) {
	for len(a.requests) > 0 {
		asked = append(asked, <-a.requests)
	}
	return asked
}

func TestKeys(t *testing.T) {
	type row struct {
		Keys string
		Want []control.Request
	}
	crewtest.Examples(t, "testdata/keys.jsonl", func(t *testing.T, row row) {
		a := keyed(t, 30, row.Keys)
		require.Equal(t, row.Want, a.asked())
		require.False(t, a.quit)
	})
	require.True(t, keyed(t, 30, "q").quit)
	require.False(t, keyed(t, 30, "lq").quit)

	a := keyed(t, 30, "")
	a.status.State = "paused"
	a.key(tcell.KeyRune, 'p')
	require.Equal(t, []control.Request{{Op: "resume"}}, a.asked())

	// The request is for the task in the question, even if it ends meanwhile.
	a = keyed(t, 30, "c")
	a.status.Tasks = a.status.Tasks[1:]
	a.update(&a.status, nil, a.looked)
	a.key(tcell.KeyRune, 'y')
	require.Equal(t, []control.Request{{Op: "cancel", Tasks: []uint64{1235}}}, a.asked())

	// No task to choose, and no run to ask.
	a = keyed(t, 0, "")
	a.tasks = nil
	a.key(tcell.KeyRune, 'c')
	require.Equal(t, "no task is running", a.message)
	require.Equal(t, "task 101 has ended", keyed(t, 3, "Ec").message)
	require.Equal(t, "task 1235 is running", keyed(t, 3, "r").message)
	a = keyed(t, 3, "")
	a.over = "ended"
	for _, key := range "pc+-dl" {
		a.key(tcell.KeyRune, key)
		require.Empty(t, a.asked())
		require.Equal(t, "the run has ended", a.message)
	}
	for range 2 * keptAsks {
		a = keyed(t, 3, "+++++++++++++++++")
	}
	require.Equal(t, "the run does not answer", a.message)
}
