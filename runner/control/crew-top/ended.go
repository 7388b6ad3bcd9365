package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"

	"crew/runner/control"
	"crew/runner/task"
)

// picked is the chosen task.
type picked struct {
	id    uint64
	name  string
	state string // as in control.Where
}

// picked returns the chosen task. ok is false if there is none.
func (v *view) picked() (p picked, ok bool) { return v.at(v.chosenRow()) }

// at returns the task of a row. ok is false if there is none.
func (v *view) at(row int) (p picked, ok bool) {
	switch n := len(v.tasks); {
	case row < n:
		t := &v.tasks[row]
		return picked{t.Task, cmp.Or(string(t.Record), t.name()), "running"}, true
	case row < v.rows():
		w := &v.ended[row-n]
		return picked{w.Task, cmp.Or(string(w.Record), string(w.Command)), w.State}, true
	}
	return picked{}, false
}

// endedText describes a task that has ended, or failed and waits for its retry.
func endedText(w *control.Where) string {
	at := "        "
	if !w.Start.IsZero() {
		at = w.Start.Add(time.Duration(w.Duration)).Local().Format(time.TimeOnly)
	}
	text := fmt.Sprintf("%s task %d: %s", at, w.Task, w.Verdict())
	if w.State == "waiting" {
		text += ", waits for its retry"
	}
	return text + ": " + strings.TrimSpace(string(w.Record)+"  "+string(w.Command))
}

// drawEnded draws the tasks that have ended, scrolled so that the chosen one is visible.
func (v *view) drawEnded(c *canvas, y, rows int) {
	chosen := v.chosenRow() - len(v.tasks)
	v.firstEnded = max(0, min(v.firstEnded, len(v.ended)-rows))
	if chosen >= 0 {
		v.firstEnded = min(max(v.firstEnded, chosen-rows+1), chosen)
	}
	for i := range min(rows, len(v.ended)-v.firstEnded) {
		w, style := &v.ended[v.firstEnded+i], c.plain
		if w.Outcome != task.OK {
			style = c.bad
		}
		if v.firstEnded+i == chosen && v.over == "" {
			style = c.chosen
			c.fill(y+i, style)
		}
		c.text(1, y+i, c.w-2, printable(endedText(w), v.left), style)
	}
}

// drawRuns draws the runs of which one is to be chosen.
func (v *view) drawRuns(c *canvas) {
	c.fill(0, c.bar)
	c.text(1, 0, c.w-2, "crew ctl top: which run?", c.bar.Bold(true))
	first := max(0, v.run-(c.h-3))
	for i, h := range v.runs[first:] {
		if i+1 >= c.h-1 {
			break
		}
		style := c.plain
		if first+i == v.run {
			style = c.chosen
			c.fill(i+1, style)
		}
		c.text(1, i+1, c.w-2, h.Line(), style)
	}
}

// chooseRun obeys a key while a run is to be chosen, and shows the one that is.
func (a *app) chooseRun(k tcell.Key, r rune) {
	switch {
	case k == tcell.KeyUp, r == 'k':
		a.run = max(0, a.run-1)
	case k == tcell.KeyDown, r == 'j':
		a.run = min(len(a.runs)-1, a.run+1)
	case k == tcell.KeyEnter:
		run := a.runs[a.run]
		a.runs = nil
		a.connect(run)
		a.tick()
	case k == tcell.KeyEscape, r == 'q':
		a.quit = true
	}
}
