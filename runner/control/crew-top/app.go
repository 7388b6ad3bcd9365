package main

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v2"
	"golang.org/x/sys/unix"

	"crew/runner/control"
	"crew/runner/linux"
)

const (
	lookEvery = time.Second            // between two looks at the run
	lookLeast = 500 * time.Millisecond // the same, after something was done
	drawLeast = 50 * time.Millisecond  // between two pictures, while much happens
	keptAsks  = 16                     // requests that wait for an answer
	sideways  = 8                      // columns that the left and right keys shift text
)

// app connects the screen, the view and the run. Its methods are called by the
// goroutine of loop alone; others post what is to be done.
type app struct {
	view
	screen  tcell.Screen
	asks    chan control.Request // to the goroutine that talks to the run
	follow  func(*log)           // starts to show the output of a task
	looking bool                 // a look is under way or will be
	last    time.Time            // when the latest one began
	drawn   time.Time
	away    bool // the terminal is given back
	quit    bool
	signal  syscall.Signal // because of which to quit; 0 for none
}

func newApp(screen tcell.Screen) *app {
	return &app{screen: screen, asks: make(chan control.Request, keptAsks)}
}

// posted is a function that another goroutine wants loop to call.
type posted struct {
	at time.Time
	do func()
}

// When returns when it was posted.
func (p posted) When() time.Time { return p.at }

// post has loop call do. It is safe for concurrent use, but do must not call it.
func (a *app) post(do func()) {
	//lint:ignore SA1019 it is safe where, as here, the loop that polls never waits for it
	a.screen.PostEventWait(posted{time.Now(), do})
}

// after is post after some time.
func (a *app) after(d time.Duration, do func()) { time.AfterFunc(d, func() { a.post(do) }) }

// loop shows the view until the user quits or the terminal is gone.
func (a *app) loop() error {
	if a.runs == nil {
		a.tick()
	}
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
		case posted:
			e.do()
		}
	}
	return nil
}

// tick looks at the run now and every second.
func (a *app) tick() {
	a.look()
	if a.over == "" {
		a.after(lookEvery, a.tick)
	}
}

// look looks at the run as soon as it may be asked again.
func (a *app) look() {
	if a.looking || a.over != "" {
		return
	}
	a.looking = true
	begin := func() {
		a.last = time.Now()
		a.looking = a.send(control.Request{Op: "status"})
	}
	if wait := lookLeast - time.Since(a.last); wait > 0 {
		a.after(wait, begin)
	} else {
		begin()
	}
}

// send sends a request to the run, unless it leaves too many unanswered.
func (a *app) send(r control.Request) (sent bool) {
	select {
	case a.asks <- r:
		return true
	default:
		a.message = "the run does not answer"
		return false
	}
}

// steer asks the run to do something, unless it is over.
func (a *app) steer(r control.Request) {
	if a.over != "" {
		a.message = a.overText()
		return
	}
	a.send(r)
}

// key obeys a key.
func (a *app) key(k tcell.Key, r rune) {
	a.message = ""
	switch {
	case k == tcell.KeyCtrlC:
		a.quit = true
	case k == tcell.KeyCtrlL:
		a.screen.Sync()
	case k == tcell.KeyCtrlZ:
		// As the terminal would do it: the whole job stops, this process once it has
		// received the signal. After that the terminal may be another's.
		a.away = true
		_ = a.screen.Suspend()
		_ = syscall.Kill(0, syscall.SIGTSTP)
	case a.runs != nil:
		a.chooseRun(k, r)
	case a.ask != nil:
		yes := a.ask.yes
		if a.ask = nil; r == 'y' || r == 'Y' {
			yes()
		}
	case a.help:
		a.help = false
	case a.log != nil:
		if a.log.key(k, r) {
			a.log.close()
			a.log = nil
		}
	case !a.move(k, r):
		a.command(k, r)
	}
}

// move chooses another task, or shifts the commands. It reports whether the key does
// that.
func (a *app) move(k tcell.Key, r rune) bool {
	row := a.chosenRow()
	switch {
	case k == tcell.KeyUp, r == 'k':
		row--
	case k == tcell.KeyDown, r == 'j':
		row++
	case k == tcell.KeyPgUp:
		row -= a.page
	case k == tcell.KeyPgDn:
		row += a.page
	case k == tcell.KeyHome:
		row = 0
	case k == tcell.KeyEnd:
		row = a.rows() - 1
	case k == tcell.KeyLeft:
		a.left = max(0, a.left-sideways)
	case k == tcell.KeyRight:
		a.left += sideways
	default:
		return false
	}
	a.choose(row)
	return true
}

// command carries out the command of a key.
func (a *app) command(k tcell.Key, r rune) {
	switch {
	case k == tcell.KeyEnter, r == 'l':
		if chosen, ok := a.chosenTask(); ok {
			a.log = &log{id: chosen.id, state: chosen.state, command: chosen.name, follow: true, close: func() {}}
			a.follow(a.log)
		}
	case r == 'q':
		a.quit = true
	case r == '?', r == 'h':
		a.help = true
	case r == 's':
		a.order = (a.order + 1) % unordered
		a.sort()
		a.message = "sorted by " + orderNames[a.order]
	case r == 'p' && a.status.State == "paused":
		a.steer(control.Request{Op: "resume"})
	case r == 'p':
		a.steer(control.Request{Op: "pause"})
	case r == '+', r == '=':
		a.steer(control.Request{Op: "resize", N: 1, Relative: true})
	case r == '-':
		a.steer(control.Request{Op: "resize", N: -1, Relative: true})
	case r == 'd' && a.over != "":
		a.message = a.overText()
	case r == 'd':
		a.ask = &question{"drain: start nothing more, and end after the running tasks?", func() {
			a.steer(control.Request{Op: "drain"})
		}}
	case r == 'c':
		if chosen, ok := a.chosenTask(); ok && chosen.state == "ended" {
			a.message = fmt.Sprintf("task %d has ended", chosen.id)
		} else if ok {
			a.ask = &question{fmt.Sprintf("cancel task %d: %s", chosen.id, chosen.name), func() {
				a.steer(control.Request{Op: "cancel", Tasks: []uint64{chosen.id}})
			}}
		}
	case r == 'r':
		if chosen, ok := a.chosenTask(); ok && chosen.state == "running" {
			a.message = fmt.Sprintf("task %d is running", chosen.id)
		} else if ok {
			a.steer(control.Request{Op: "retry", Tasks: []uint64{chosen.id}})
		}
	}
}

// chosenTask returns the chosen task. If there is none, it says so.
func (a *app) chosenTask() (p picked, ok bool) {
	if a.over != "" {
		a.message = a.overText()
		return p, false
	}
	if p, ok = a.picked(); !ok {
		a.message = "no task is running"
	}
	return p, ok
}

// obey does what signals ask for, until the program ends.
func (a *app) obey(signals chan syscall.Signal) {
	for sig := range signals {
		if sig == syscall.SIGTSTP {
			a.post(func() { a.suspend(signals) })
			continue
		}
		if sig != syscall.SIGTERM { // the kernel may send that for each thread of a crew that dies
			linux.Reset(sig) // once more, and it acts at once
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
	linux.Reset(syscall.SIGTSTP)
	runtime.LockOSThread() // a signal to this thread acts before the call returns
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTSTP)
	runtime.UnlockOSThread()
	_ = linux.Take(signals, syscall.SIGTSTP)
	_ = a.screen.Suspend()
	if a.away = a.screen.Resume() != nil; !a.away {
		a.screen.Sync()
	}
}
