package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"

	"crew/runner/task"
)

const (
	tall     = 16 // so many rows have room for more than the tasks
	narrow   = 60 // fewer columns have no room for memory and attempts
	longHost = 20 // bytes of the name of a machine

	leastBar  = 12 // fewer columns are not worth a progress bar
	leastName = 8  // columns of the run's name
)

// draw draws the view.
func (v *view) draw(s tcell.Screen) {
	s.Clear()
	w, h := s.Size()
	c := &canvas{Screen: s, w: w, h: h, styles: newStyles(s.Colors())}
	switch {
	case h < 2 || w < 2:
	case v.runs != nil:
		v.drawRuns(c)
	case v.help:
		c.help()
	case v.log != nil:
		v.log.draw(c)
	default:
		y := v.header(c)
		v.body(c, y, h-1-y)
	}
	v.footer(c)
	s.Show()
}

// header draws the totals. It returns the row below.
func (v *view) header(c *canvas) int {
	s := &v.status
	c.fill(0, c.bar)
	state := cmp.Or(v.over, s.State) + "  " + task.Brief(time.Duration(s.Elapsed))
	left := c.w - 3 - len(state)
	c.right(1, 0, c.w-2, state, c.bar.Bold(true))
	pid := fmt.Sprintf("  pid %d", v.hello.PID)
	x := c.text(1, 0, max(left-len(pid), min(left, leastName)), cmp.Or(v.hello.Name, "crew"), c.bar.Bold(true))
	if x+len(pid) <= 1+left {
		c.text(x, 0, len(pid), pid, c.bar)
	}
	y := 1
	if c.h >= tall {
		c.text(1, y, c.w-2, string(v.hello.Command), c.dim)
		y++
	}
	v.progress(c, y)
	y++
	if c.h >= tall {
		before := "throughput "
		if s.Rate > 0 {
			before += task.Rate(s.Rate) + " "
		}
		highest := slices.Max(append([]float64{0}, v.rates[max(0, len(v.rates)-c.w):]...))
		scale := ""
		if highest > 0 {
			scale = " max " + task.Rate(highest)
		}
		c.text(1, y, c.w-2, before, c.dim)
		c.graph(1+len(before), y, c.w-2-len(before)-len(scale), v.rates, highest)
		c.text(c.w-1-len(scale), y, len(scale), scale, c.dim)
		y++
	}
	return y
}

// progress draws the totals and, if there is room, a bar.
func (v *view) progress(c *canvas, y int) {
	s := &v.status
	count, percent := fmt.Sprintf("%d done", s.Done), ""
	if s.Total != nil {
		count = fmt.Sprintf("%d/%d done", s.Done, *s.Total)
		if *s.Total > 0 {
			percent = fmt.Sprintf(" %d%%", 100*s.Done / *s.Total)
		}
	}
	parts := []string{count, fmt.Sprintf("%d failed", s.Failed)}
	for _, o := range []task.Outcome{task.Cancelled, task.NotRun} {
		if n := s.Outcomes[o.String()]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(o.String(), "-", " ")))
		}
	}
	if v.over == "" {
		if s.ETA != nil {
			parts = append(parts, "eta "+task.Brief(time.Duration(*s.ETA)))
		}
		parts = append(parts, fmt.Sprintf("%d/%d workers busy", len(v.tasks), len(s.Workers)))
	}
	if s.Rate > 0 && c.h < tall {
		parts = append(parts, task.Rate(s.Rate))
	}
	for len(strings.Join(parts, "  ")) > c.w-2 && len(parts) > 2 {
		parts = parts[:len(parts)-1]
	}
	x := 1
	for i, p := range parts {
		style := c.plain
		if i == 1 && s.Failed > 0 {
			style = c.bad
		}
		x = c.text(x, y, c.w-1-x, p, style) + 2
	}
	if room := c.w - 1 - x - len(percent); percent != "" && room >= leastBar {
		full := int(int64(room) * min(s.Done, *s.Total) / *s.Total)
		c.text(x, y, room, strings.Repeat("█", full), c.good)
		c.text(x+full, y, room-full, strings.Repeat("░", room-full), c.dim)
		c.text(x+room, y, len(percent), percent, c.plain)
	}
}

// body shares rows from y on among the tasks, what waits, and what has ended.
func (v *view) body(c *canvas, y, rows int) {
	tasks := 1 + len(v.tasks)
	rest := rows - min(tasks, max(4, rows*2/3))
	share := func(lines, most int) int {
		if n := min(1+lines, most, rest); lines > 0 && n > 1 {
			rest -= n
			return n
		}
		return 0
	}
	ended := 0
	if v.past { // the chosen task is there
		ended = share(len(v.ended), max(2, rest-min(1+len(v.waits), rest/2)))
	}
	waits := share(len(v.waits), max(2, rest-min(1+len(v.ended), rest/2)))
	if !v.past {
		ended = share(len(v.ended), rest)
	}
	tasks = min(tasks, rows-waits-ended)
	gap := 0
	if rows-tasks-waits-ended >= 2 {
		gap = 1
	}
	v.table(c, y, tasks)
	y += tasks
	if waits > 0 {
		y += gap
		c.section(y, "WAITING", queue(&v.status))
		first := c.plain
		if b := v.status.Blocking; b != nil && v.waits[0] == b.Text { // why nothing starts
			first = c.warn
		}
		c.list(y+1, waits-1, v.waits, first, c.plain)
		y += waits
	}
	if ended > 0 {
		y += gap
		c.section(y, "ENDED", "the latest first")
		v.drawEnded(c, y+1, ended-1)
	}
}

// section draws the title of a part.
func (c *canvas) section(y int, title, more string) {
	x := c.text(1, y, c.w-2, title, c.bold)
	c.text(x+2, y, c.w-3-x, more, c.dim)
}

// list draws texts on some rows, the first with a style of its own. If there are
// more, the last row says how many.
func (c *canvas) list(y, rows int, items []string, first, other tcell.Style) {
	style := first
	for i, text := range items[:min(rows, len(items))] {
		if i > 0 && i == rows-1 && rows < len(items) {
			text, style = fmt.Sprintf("… and %d more", len(items)-i), c.dim
		}
		c.text(1, y+i, c.w-2, text, style)
		style = other
	}
}

// column is one of the table's.
type column struct {
	title string
	width int // with the blank before it
	by    order
	value func(*row) string
	left  bool // the values are at the left
}

// columns returns the columns before the command for which there is room.
func (v *view) columns(w int) []column {
	number := func(title string, least int, by order, value func(*row) string) column {
		c := column{title: title, width: max(least, len(title)+1), by: by, value: value}
		for i := range v.tasks {
			c.width = max(c.width, len(value(&v.tasks[i]))+1)
		}
		return c
	}
	worker, age := "WORKER", 8
	if w < narrow {
		worker, age = "W", 7
	}
	cols := []column{number(worker, 3, byWorker, func(r *row) string { return strconv.Itoa(r.Worker) })}
	if w >= narrow && slices.ContainsFunc(v.tasks, func(r row) bool { return r.Host != "" }) {
		cols = append(cols, number("HOST", 5, unordered, func(r *row) string { return task.HostName(string(r.Host[:min(len(r.Host), longHost)])) }))
	}
	cols = append(cols,
		number("TASK", 6, unordered, func(r *row) string { return strconv.FormatUint(r.Task, 10) }),
		number("AGE", age, byAge, func(r *row) string { return task.Brief(time.Duration(r.Duration)) }),
	)
	if w >= narrow {
		cols = append(cols, number("TRY", 4, unordered, func(r *row) string { return strconv.Itoa(r.Attempt) }))
	}
	cols = append(cols, number("CPU%", 5, byCPU, func(r *row) string {
		if !r.measured {
			return "-"
		}
		return strconv.FormatFloat(100*r.cpu, 'f', 0, 64)
	}))
	if w >= narrow {
		cols = append(cols, number("MEM", 6, byMemory, func(r *row) string {
			if !r.measured {
				return "-"
			}
			return size(r.memory)
		}))
		record := number("RECORD", 8, unordered, func(r *row) string { return task.Shorten(r.record(), w/4) })
		if record.left = true; slices.ContainsFunc(v.tasks, func(r row) bool { return r.record() != "" }) {
			record.width = min(record.width+1, w/4)
			cols = append(cols, record)
		}
	}
	return cols
}

// table draws the running tasks, scrolled so that the chosen one is visible.
func (v *view) table(c *canvas, y, rows int) {
	cols := v.columns(c.w)
	x := 0
	for _, col := range cols {
		style := c.bold
		if col.by == v.order {
			style = c.bold.Underline(true)
		}
		at := x + col.width - len(col.title)
		if col.left {
			at = x + 2
		}
		c.text(at, y, len(col.title), col.title, style)
		x += col.width
	}
	chosen, rows := v.chosenRow(), rows-1
	v.page = max(rows, 1)
	v.first = max(0, min(v.first, chosen, len(v.tasks)-rows))
	if rows > 0 && chosen >= v.first+rows && chosen < len(v.tasks) {
		v.first = chosen - rows + 1
	}
	title, style, shown := "COMMAND", c.bold, ""
	if len(v.tasks) == 0 {
		title, style = "no task is running", c.dim
	}
	if rows < len(v.tasks) {
		shown = fmt.Sprintf(" %d-%d of %d", v.first+1, v.first+rows, len(v.tasks))
		c.right(x+2, y, c.w-3-x, shown, c.dim)
	}
	c.text(x+2, y, c.w-3-x-len(shown), title, style)
	for i := range max(0, min(rows, len(v.tasks)-v.first)) {
		r, style := &v.tasks[v.first+i], c.plain
		if v.first+i == chosen && v.over == "" {
			style = c.chosen
			c.fill(y+1+i, style)
		}
		x := 0
		for _, col := range cols {
			if col.left {
				c.text(x+2, y+1+i, col.width-2, col.value(r), style)
			} else {
				c.right(x+1, y+1+i, col.width-1, col.value(r), style)
			}
			x += col.width
		}
		name := r.name()
		if c.w < narrow {
			name = cmp.Or(r.record(), name)
		}
		c.text(x+2, y+1+i, c.w-3-x, printable(name, v.left), style)
	}
}

// hints explain the keys on the last line, the most important first.
var hints = [...]struct{ key, does string }{
	{"q", "quit"}, {"?", "help"}, {"p", "pause"}, {"+ -", "workers"}, {"c", "cancel"}, {"l", "log"}, {"r", "retry"}, {"s", "sort"}, {"d", "drain"},
}

// footer draws the last line: what there is to say, or the keys.
func (v *view) footer(c *canvas) {
	y := c.h - 1
	silent := v.silent(time.Now())
	switch {
	case v.ask != nil:
		c.fill(y, c.bar)
		const answers = "  y/n"
		x := c.text(1, y, c.w-2-len(answers), v.ask.question, c.bar.Bold(true))
		c.text(x, y, c.w-x, answers, c.bar.Bold(true))
	case v.message != "":
		c.text(1, y, c.w-2, v.message, c.warn)
	case v.over != "":
		c.text(1, y, c.w-2, v.overText()+"  q quit", c.warn)
	case silent > 0:
		c.text(1, y, c.w-2, "the run has not answered for "+task.Brief(silent)+": is it stopped?", c.warn)
	case v.runs != nil:
		c.text(1, y, c.w-2, "enter show  q quit", c.dim)
	case v.help || v.log != nil:
		c.text(1, y, c.w-2, "q back", c.dim)
	default:
		x := 1
		for _, hint := range hints {
			if x+len(hint.key)+1+len(hint.does) > c.w-1 {
				break
			}
			x = c.text(x, y, c.w, hint.key, c.bold)
			x = c.text(x+1, y, c.w, hint.does, c.dim) + 2
		}
	}
}

// help draws what the keys do.
func (c *canvas) help() {
	c.fill(0, c.bar)
	c.text(1, 0, c.w-2, "crew ctl top: the keys", c.bar.Bold(true))
	for i, line := range strings.Split(helpText, "\n") {
		if i+1 < c.h-1 {
			c.text(1, 1+i, c.w-2, line, c.plain)
		}
	}
}

const helpText = `up down    choose a task, also one that has ended; also k j, page up and down,
           home, end
left right shift the commands
l, enter   show the task's output, as it comes or what is kept of it
c          cancel the task
r          run the failed task again, or now if it waits for its retry
p          pause; again: resume
+ -        a worker more, a worker fewer
d          drain: start nothing more, then end
s          sort by worker, age, CPU, memory
q          quit; the run goes on
CPU and memory are those of all processes of a task, CPU% of one processor`
