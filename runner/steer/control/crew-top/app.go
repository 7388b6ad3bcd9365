package main

import (
	"os"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v2"
	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
	"crew/runner/steer/control"
)

const (
	drawLeast = 50 * time.Millisecond // between two pictures, while much happens
	keptAsks  = 16                    // requests that wait for an answer
	keptTodo  = 16                    // what was posted and is not done yet
)

// app connects the screen, the view and the run. Its methods are called by the
// goroutine of loop alone; others post what is to be done.
type app struct {
	view
	screen    tcell.Screen
	todo      chan func()          // what is posted
	asks      chan control.Request // to the goroutine that talks to the run
	follow    func(*log)           // starts to show the output of a task
	drawn     time.Time
	away      bool // the terminal is given back
	quit      bool
	err       error               // of the terminal, because of which to quit
	signal    syscall.Signal      // because of which to quit; 0 for none
	signals   chan syscall.Signal // that this process receives
	continued chan syscall.Signal // has room for one SIGCONT
}

func newApp(screen tcell.Screen) *app {
	return &app{screen: screen, todo: make(chan func(), keptTodo), asks: make(chan control.Request, keptAsks),
		signals: make(chan syscall.Signal, 4), continued: make(chan syscall.Signal, 1)}
}

// post has loop call do. It is safe for concurrent use, but do must not call it. The queue of the
// screen is not used for that: until there is room in it, the screen does not let go of the terminal.
func (a *app) post(do func()) { a.todo <- do }

// loop shows the view until the user quits or the terminal is gone.
func (a *app) loop() error {
	go func() {
		for e := a.screen.PollEvent(); e != nil; e = a.screen.PollEvent() {
			a.post(func() { a.happened(e) })
		}
	}()
	for !a.quit {
		if !a.away && (len(a.todo) == 0 || time.Since(a.drawn) > drawLeast) {
			a.draw(a.screen)
			a.drawn = time.Now()
		}
		(<-a.todo)()
	}
	return a.err
}

// happened takes an event of the terminal.
func (a *app) happened(e tcell.Event) {
	switch e := e.(type) {
	case *tcell.EventError:
		a.quit, a.err = true, e
	case *tcell.EventResize:
		a.screen.Sync()
	case *tcell.EventKey:
		a.key(e.Key(), e.Rune())
	}
}

// obey does what signals ask for, until the program ends.
func (a *app) obey() {
	for sig := range a.signals {
		if sig == syscall.SIGTSTP {
			a.post(a.stop)
			continue
		}
		kernel.Reset(sig) // once more, and it acts at once
		a.post(func() { a.quit, a.signal = true, sig })
	}
}

// stopWithin is how long a process waits to be stopped by SIGTSTP, which the kernel discards
// where no shell could continue it.
const stopWithin = time.Second

// inSession reports whether the parent may be a shell that can continue this process.
func inSession() bool {
	own, err := unix.Getsid(0)
	of, failed := unix.Getsid(os.Getppid())
	return err == nil && failed == nil && own == of
}

// stop stops the whole job, as a terminal does at Ctrl-Z. The terminal is as it was before meanwhile.
func (a *app) stop() {
	_ = a.screen.Suspend()
	select {
	case <-a.continued: // before this
	default:
	}
	kernel.Reset(syscall.SIGTSTP)
	_ = syscall.Kill(0, syscall.SIGTSTP) // which may return before this process stops
	if kernel.Portable && inSession() {  // the Go runtime keeps its handler, which does nothing
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
	select {
	case <-a.continued:
	case <-time.After(stopWithin):
	}
	_ = kernel.Take(a.signals, syscall.SIGTSTP)
	if a.away = a.screen.Resume() != nil; !a.away {
		a.screen.Sync()
	}
}
