package main

import (
	"io"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// terminal is a terminal at which a user types.
type terminal struct {
	io.Writer
	typed chan string
}

func (t *terminal) Read(p []byte) (int, error)                { return copy(p, <-t.typed), nil }
func (t *terminal) Start() error                              { return nil }
func (t *terminal) Stop() error                               { return nil }
func (t *terminal) Close() error                              { return nil }
func (t *terminal) NotifyResize(func())                       {}
func (t *terminal) WindowSize() (w tcell.WindowSize, _ error) { return w, nil }
func (t *terminal) Drain() error {
	go func() { t.typed <- "" }()
	return nil
}

// TestBusyEnd checks that the terminal can be released while many events come and the user types.
func TestBusyEnd(t *testing.T) {
	info, err := tcell.LookupTerminfo("xterm")
	require.NoError(t, err)
	tty := &terminal{io.Discard, make(chan string)}
	s, err := tcell.NewTerminfoScreenFromTtyTerminfo(tty, info)
	require.NoError(t, err)
	require.NoError(t, s.Init())
	a := newApp(s)
	for range 1000 {
		go a.post(func() {})
	}
	crewtest.Until(t, func() bool { return len(a.todo) == cap(a.todo) }, "much to do")
	tty.typed <- "x"
	tty.typed <- "y" // the first one was taken
	ended := make(chan bool)
	go func() {
		s.Fini()
		close(ended)
	}()
	crewtest.Receive(t, ended, "the end")
}
