package main

import (
	"cmp"
	"testing"
	"testing/synctest"
	"time"

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

// TestSilent checks that the last line says it by itself if the run does not answer.
func TestSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := keyed(t, 3, "")
		a.looked = time.Now()
		over := make(chan error)
		go func() { over <- a.loop() }()
		time.Sleep(silentAfter + time.Second)
		synctest.Wait()
		require.Contains(t, lines(a.screen.(tcell.SimulationScreen)), " the run has not answered for 4s: is it stopped?")
		a.post(func() { a.quit = true })
		require.NoError(t, <-over)
	})
}

// asked returns the requests of an app.
func (a *app) asked() (asked []control.Request) {
	for len(a.requests) > 0 {
		asked = append(asked, <-a.requests)
	}
	return asked
}

func TestKeys(t *testing.T) {
	crewtest.Examples(t, "testdata/keys.jsonl", func(t *testing.T, row struct {
		Tasks                      *int // nil for 30
		State, Over, Keys, Message string
		Quit                       bool
		Want                       []control.Request
	}) {
		a := keyed(t, 30, "")
		if row.Tasks != nil {
			a.tasks = a.tasks[:*row.Tasks]
		}
		a.status.State, a.over = cmp.Or(row.State, a.status.State), row.Over
		press(a, row.Keys)
		require.Equal(t, row.Want, a.asked())
		require.Equal(t, row.Quit, a.quit)
		require.True(t, row.Message == "" || row.Message == a.message, a.message)
	})

	// The request is for the task in the question, even if it ends meanwhile.
	a := keyed(t, 30, "c")
	a.status.Tasks = a.status.Tasks[1:]
	a.update(&a.status, nil)
	a.key(tcell.KeyRune, 'y')
	require.Equal(t, []control.Request{{Op: "cancel", Tasks: []uint64{1235}}}, a.asked())

	for range 2 * keptAsks {
		a = keyed(t, 3, "+++++++++++++++++")
	}
	require.Equal(t, "the run does not answer", a.message)
}
