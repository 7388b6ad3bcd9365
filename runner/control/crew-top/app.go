package main

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v2"
	"golang.org/x/sys/unix"

	"crew/runner/control"
	"crew/runner/kernel"
)

const (
	drawLeast = 50 * time.Millisecond // between two pictures, while much happens
	keptAsks  = 16                    // requests that wait for an answer
)

// app connects the screen, the view and the run. Its methods are called by the
// goroutine of loop alone; others post what is to be done.
type app struct {
	view
	screen tcell.Screen
	asks   chan control.Request // to the goroutine that talks to the run
	follow func(*log)           // starts to show the output of a task
	drawn  time.Time
	away   bool // the terminal is given back
	quit   bool
	signal syscall.Signal // because of which to quit; 0 for none
}

func newApp(screen tcell.Screen) *app {
	return &app{screen: screen, asks: make(chan control.Request, keptAsks)}
}

// post has loop call do. It is safe for concurrent use, but do must not call it.
func (a *app) post(do func()) {
	//lint:ignore SA1019 it is safe where, as here, the loop that polls never waits for it
	a.screen.PostEventWait(tcell.NewEventInterrupt(do))
}

// loop shows the view until the user quits or the terminal is gone.
func (a *app) loop() error {
	for !a.quit {
		if !a.away && (!a.screen.HasPendingEvent() || time.Since(a.drawn) > drawLeast) {
			a.draw(a.screen)
			a.drawn = time.Now()
		}
		switch e := a.screen.PollEvent().(type) {
		case nil:
			return nil
		case *tcell.EventError:
			return e
		case *tcell.EventResize:
			a.screen.Sync()
		case *tcell.EventKey:
			a.key(e.Key(), e.Rune())
		case *tcell.EventInterrupt:
			e.Data().(func())()
		}
	}
	return nil
}

// obey does what signals ask for, until the program ends.
func (a *app) obey(signals chan syscall.Signal) {
	for sig := range signals {
		if sig == syscall.SIGTSTP {
			a.post(func() { a.suspend(signals) })
			continue
		}
		if sig != syscall.SIGTERM { // the kernel may send that for each thread of a crew that dies
			kernel.Reset(sig) // once more, and it acts at once
		}
		a.post(func() { a.quit, a.signal = true, sig })
	}
}

// suspend stops this process as SIGTSTP does. If it is still in the foreground, the
// terminal is as it was before meanwhile.
func (a *app) suspend(signals chan<- syscall.Signal) {
	group, err := unix.IoctlGetInt(int(os.Stdout.Fd()), unix.TIOCGPGRP)
	if err == nil && group == syscall.Getpgrp() {
		_ = a.screen.Suspend()
	}
	kernel.Reset(syscall.SIGTSTP)
	runtime.LockOSThread() // a signal to this thread acts before the call returns
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTSTP)
	runtime.UnlockOSThread()
	_ = kernel.Take(signals, syscall.SIGTSTP)
	_ = a.screen.Suspend()
	if a.away = a.screen.Resume() != nil; !a.away {
		a.screen.Sync()
	}
}
