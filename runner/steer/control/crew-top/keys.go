package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/gdamore/tcell/v2"

	"crew/runner/steer/control"
)

// shiftColumns is the number of columns by which the left and right keys shift text.
const shiftColumns = 8

// key handles a key.
func (a *app) key(k tcell.Key, r rune) {
	a.message = ""
	switch {
	case k == tcell.KeyCtrlC:
		a.quit = true
	case k == tcell.KeyCtrlL:
		a.screen.Sync()
	case k == tcell.KeyCtrlZ:
		a.stop()
	case a.runs != nil:
		a.chooseRun(k, r)
	case a.ask != nil:
		if r == 'y' || r == 'Y' {
			a.send(a.ask.request)
		}
		a.ask = nil
	case a.log != nil:
		if k == tcell.KeyEscape || r == 'q' || r == 'l' || r == '?' {
			a.log.close()
			a.log = nil
		} else if rows := moves(k, r, a.log.page); rows != 0 {
			a.log.scroll(rows)
		} else {
			shift(&a.log.left, k)
		}
	default:
		if rows := moves(k, r, a.page); rows != 0 && r != 'g' { // which shows another graph
			a.choose(a.chosenRow() + rows)
		} else if !shift(&a.left, k) {
			a.command(k, r)
		}
	}
}

// moves returns by how many rows a key moves in a list that shows page rows, or 0 for other keys.
func moves(k tcell.Key, r rune, page int) int {
	switch {
	case k == tcell.KeyUp, r == 'k':
		return -1
	case k == tcell.KeyDown, r == 'j':
		return 1
	case k == tcell.KeyPgUp:
		return -page
	case k == tcell.KeyPgDn, r == ' ':
		return page
	case k == tcell.KeyHome, r == 'g':
		return math.MinInt32
	case k == tcell.KeyEnd, r == 'G':
		return math.MaxInt32
	}
	return 0
}

// shift changes left, the number of hidden columns, if k is the left or right key. It reports whether
// it is.
func shift(left *int, k tcell.Key) bool {
	switch k {
	case tcell.KeyLeft:
		*left = max(0, *left-shiftColumns)
	case tcell.KeyRight:
		*left += shiftColumns
	default:
		return false
	}
	return true
}

// chooseRun handles a key in the list of runs. Enter connects to the marked run.
func (a *app) chooseRun(k tcell.Key, r rune) {
	a.run = max(0, min(a.run+moves(k, r, len(a.runs)), len(a.runs)-1))
	switch {
	case k == tcell.KeyEnter:
		run := a.runs[a.run]
		a.runs = nil
		a.connect(run)
	case k == tcell.KeyEscape, r == 'q':
		a.quit = true
	}
}

// commands are the commands of the other keys, most important first.
var commands = [...]struct {
	keys       string
	hint, help string
	do         func(a *app, key rune)
}{
	{"q", "quit", "quit; the run goes on", func(a *app, _ rune) { a.quit = true }},
	{"?", "help", "show the keys", nil},
	{"p", "pause", "pause; again: resume", func(a *app, _ rune) {
		op := "pause"
		if a.status.State == "paused" {
			op = "resume"
		}
		a.send(control.Request{Op: op})
	}},
	{"+ -", "workers", "a worker more, a worker fewer", func(a *app, key rune) {
		n := 1
		if key == '-' {
			n = -1
		}
		a.send(control.Request{Op: "resize", N: n, Relative: true})
	}},
	{"c", "cancel", "cancel the task", func(a *app, _ rune) {
		if t := a.chosenTask(); t != nil {
			a.ask = &question{fmt.Sprintf("cancel task %d: %s", t.Task, t.name()), control.Request{Op: "cancel", Tasks: []uint64{t.Task}}}
		}
	}},
	{"l", "log", "show the task's output, as it comes or as kept; also enter", func(a *app, _ rune) {
		if t := a.chosenTask(); t != nil {
			ctx, leave := context.WithCancel(context.Background())
			a.log = &log{id: t.Task, state: t.State, title: t.name(), close: leave, follow: true}
			go a.followLog(ctx, a.hello, a.log)
		}
	}},
	{"r", "retry", "run the failed task again, or now if it waits for its retry", func(a *app, _ rune) {
		if t := a.chosenTask(); t != nil {
			a.send(control.Request{Op: "retry", Tasks: []uint64{t.Task}})
		}
	}},
	{"s", "sort", "sort by worker, age, CPU, memory", func(a *app, _ rune) {
		a.sortBy = (a.sortBy + 1) % len(orders)
		a.sort()
		a.message = "sorted by " + orders[a.sortBy].by
	}},
	{"d", "drain", "drain: start nothing more, then end", confirmed("drain", "drain: start nothing more, and end after the running tasks?")},
	{"x", "stop", "stop: end the running tasks, and the run", confirmed("stop", "stop: end the running tasks, and the run?")},
	{"g", "graph", "show failures, running and waiting tasks, memory or load over time", func(a *app, _ rune) {
		a.graphed = (a.graphed + 1) % len(graphs)
	}},
}

// keysLog returns the list of keys.
func keysLog() *log {
	l := &log{title: "crew ctl top: the keys", close: func() {}}
	text := "up down    choose a task, also one that has ended; also k j, page up and down,\n           home, end\nleft right shift the commands\n"
	for _, c := range commands {
		text += fmt.Sprintf("%-10s %s\n", c.keys, c.help)
	}
	l.add([]byte(text+"CPU and memory are those of all processes of a task, CPU% of one processor"), false)
	return l
}

// confirmed returns a command that sends op after the user has confirmed text.
func confirmed(op, text string) func(a *app, key rune) {
	return func(a *app, _ rune) { a.ask = &question{text, control.Request{Op: op}} }
}

// command runs the command of a key. Once the run is over, only a few are allowed.
func (a *app) command(k tcell.Key, r rune) {
	switch {
	case k == tcell.KeyEnter:
		r = 'l'
	case r == '=':
		r = '+'
	}
	for _, c := range commands {
		switch {
		case !strings.ContainsRune(c.keys, r):
		case a.over != "" && !strings.ContainsRune("q?s", r):
			a.message = a.overText()
		case r == '?':
			a.log = keysLog()
		default:
			c.do(a, r)
		}
	}
}

// chosenTask returns the chosen task. Without any task, it shows a message and returns nil.
func (a *app) chosenTask() *row {
	if len(a.tasks) == 0 {
		a.message = "no task is running"
		return nil
	}
	t := a.tasks[a.chosenRow()]
	return &t
}

// send sends a request to the run, unless too many are unanswered.
func (a *app) send(r control.Request) {
	select {
	case a.requests <- r:
	default:
		a.message = "the run does not answer"
	}
}
