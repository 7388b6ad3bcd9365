package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v2"
	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
	"crew/runner/steer/control"
)

const (
	drawLeast = 50 * time.Millisecond // between two redraws while much happens
	keptAsks  = 16                    // requests that wait for an answer
	keptTodo  = 16                    // posted functions that wait to be called
)

// app connects the screen, the view and the run. Only the goroutine of loop calls its methods; other
// goroutines post functions to it.
type app struct {
	view
	screen       tcell.Screen
	todo         chan func()          // posted functions
	requests     chan control.Request // requests for the goroutine that talks to the run
	drawn        time.Time            // of the last redraw
	lostTerminal bool                 // the terminal could not be taken back after a stop
	quit         bool
	err          error               // error of the terminal that made the program quit
	signal       syscall.Signal      // signal that made the program quit; 0 for none
	signals      chan syscall.Signal // signals that this process receives
	continued    chan syscall.Signal // SIGCONT, with room for one
}

func newApp(screen tcell.Screen) *app {
	return &app{screen: screen, todo: make(chan func(), keptTodo), requests: make(chan control.Request, keptAsks),
		signals: make(chan syscall.Signal, 4), continued: make(chan syscall.Signal, 1)}
}

// post makes loop call do. It is safe for concurrent use, but do must not call it. It does not use the
// event queue of the screen, because Suspend blocks while that is full.
func (a *app) post(do func()) { a.todo <- do }

// loop runs until the user quits or the terminal is gone.
func (a *app) loop() error {
	go func() {
		for e := a.screen.PollEvent(); e != nil; e = a.screen.PollEvent() {
			a.post(func() { a.handleEvent(e) })
		}
	}()
	for !a.quit {
		if !a.lostTerminal && (len(a.todo) == 0 || time.Since(a.drawn) > drawLeast) {
			a.draw(a.screen)
			a.drawn = time.Now()
		}
		select {
		case do := <-a.todo:
			do()
		case <-time.After(time.Second): // the last line says how long the run has been silent
		}
	}
	return a.err
}

// handleEvent handles an event of the terminal.
func (a *app) handleEvent(e tcell.Event) {
	switch e := e.(type) {
	case *tcell.EventError:
		a.quit, a.err = true, e
	case *tcell.EventResize:
		a.screen.Sync()
	case *tcell.EventKey:
		a.key(e.Key(), e.Rune())
	}
}

// handleSignals handles signals until the program ends.
func (a *app) handleSignals() {
	for sig := range a.signals {
		if sig == syscall.SIGTSTP {
			a.post(a.stop)
			continue
		}
		kernel.Reset(sig) // the second one ends the program at once
		a.post(func() { a.quit, a.signal = true, sig })
	}
}

// stopWithin is how long stop waits for SIGTSTP to stop the process and SIGCONT to continue it. The
// kernel discards SIGTSTP if no shell could continue the process.
const stopWithin = time.Second

// inSession reports whether the parent may be a shell that can continue this process.
func inSession() bool {
	own, err := unix.Getsid(0)
	of, failed := unix.Getsid(os.Getppid())
	return err == nil && failed == nil && own == of
}

// stop stops the whole job, as Ctrl-Z does. Meanwhile the terminal is restored.
func (a *app) stop() {
	_ = a.screen.Suspend()
	select {
	case <-a.continued: // drop an earlier SIGCONT
	default:
	}
	kernel.Reset(syscall.SIGTSTP)
	if kernel.Portable { // the Go runtime keeps its handler, which might first run after Notify below
		signal.Ignore(syscall.SIGTSTP)
	}
	_ = syscall.Kill(0, syscall.SIGTSTP) // may return before this process stops
	if kernel.Portable && inSession() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
	select {
	case <-a.continued:
	case <-time.After(stopWithin):
	}
	_ = kernel.Notify(a.signals, syscall.SIGTSTP)
	if a.lostTerminal = a.screen.Resume() != nil; !a.lostTerminal {
		a.screen.Sync()
	}
}
