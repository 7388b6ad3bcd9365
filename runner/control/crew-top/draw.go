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
	if v.over != "" {
		c.chosen = c.plain // nothing can be done with it
	}
	switch {
	case h < 2 || w < 2:
	case v.runs != nil:
		v.drawRuns(c)
	case v.help:
		c.drawHelp()
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
		c.line(y, string(v.hello.Command), c.dim)
		y++
	}
	v.progress(c, y)
	y++
	if c.h >= tall {
		before := "throughput "
		if s.Rate > 0 {
			before += task.Speed(s.Rate) + " "
		}
		highest := slices.Max(append([]float64{0}, v.rates[max(0, len(v.rates)-c.w):]...))
		scale := ""
		if highest > 0 {
			scale = " max " + task.Speed(highest)
		}
		c.line(y, before, c.dim)
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
	for _, o := range []task.Outcome{task.Skipped, task.Cancelled, task.NotRun} {
		if n := s.Outcomes[o.String()]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ReplaceAll(o.String(), "-", " ")))
		}
	}
	if v.over == "" {
		if s.ETA != nil {
			parts = append(parts, "eta "+task.Brief(time.Duration(*s.ETA)))
		}
		parts = append(parts, fmt.Sprintf("%d/%d workers busy", v.running, len(s.Slots)))
	}
	if s.Rate > 0 && c.h < tall {
		parts = append(parts, task.Speed(s.Rate))
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

// body shares rows from y on among the tasks, what waits, and what has ended. The chosen
// task is always shown.
func (v *view) body(c *canvas, y, rows int) {
	fit := func(lines, room int) int { // with a title
		if lines == 0 || room < 2 {
			return 0
		}
		return min(1+lines, room)
	}
	past := len(v.tasks) - v.running
	rest := rows - min(1+v.running, max(4, rows*2/3))
	waits := fit(len(v.waits), min(rest, max(2, rest/2, rest-1-past)))
	if v.past && rest-waits < 2 {
		waits = 0
	}
	ended := fit(past, rest-waits)
	tasks := min(1+v.running, rows-waits-ended)
	gap := 0
	if rows-tasks-waits-ended >= 2 {
		gap = 1
	}
	v.table(c, y, tasks)
	y += tasks
	if waits > 0 {
		y += gap
		held := ""
		if n := v.status.Held; n > 0 {
			held = task.Count(n, "result") + " behind those of earlier tasks"
		}
		c.section(y, "WAITING", held)
		v.drawWaits(c, y+1, waits-1)
		y += waits
	}
	if ended > 0 {
		y += gap
		c.section(y, "ENDED", "the latest first")
		c.list(y+1, ended-1, past, v.chosenRow()-v.running, &v.firstEnded, func(i, y int, style tcell.Style) {
			t := &v.tasks[v.running+i]
			if !t.Outcome.Succeeded() && style == c.plain {
				style = c.bad
			}
			c.line(y, printable(endedText(t), v.left), style)
		})
	}
}

// section draws the title of a part.
func (c *canvas) section(y int, title, more string) {
	x := c.line(y, title, c.bold)
	c.text(x+2, y, c.w-3-x, more, c.dim)
}

// drawWaits draws what waits. If there is more than rows, the last one says how much.
func (v *view) drawWaits(c *canvas, y, rows int) {
	for i, text := range v.waits[:min(rows, len(v.waits))] {
		style := c.plain
		if b := v.status.Blocking; b != nil && text == b.Shown { // why nothing starts
			style = c.warn
		} else if i > 0 && i == rows-1 && rows < len(v.waits) {
			text, style = fmt.Sprintf("… and %d more", len(v.waits)-i), c.dim
		}
		c.line(y+i, text, style)
	}
}

// endedText describes a task that has ended, or failed and waits for its retry.
func endedText(t *row) string {
	at := "        "
	if !t.Start.IsZero() {
		at = t.Start.Add(time.Duration(t.Duration)).Local().Format(time.TimeOnly)
	}
	text := fmt.Sprintf("%s task %d: %s", at, t.Task, t.Verdict())
	if t.State == "waiting" {
		text += ", waits for its retry"
	}
	return text + ": " + strings.TrimSpace(t.record()+"  "+t.name())
}

// column is one of the table's.
type column struct {
	title string
	width int  // at least, with the blank before it
	wide  bool // a narrow screen has no room for it
	some  bool // it is left out unless a task has a value
	left  bool // the values are at the left
	by    order
	value func(*row) string
}

// columns are those before the command.
var columns = [...]column{
	{title: "WORKER", width: 3, by: byWorker, value: func(r *row) string { return strconv.Itoa(r.Worker) }},
	{title: "HOST", width: 5, wide: true, some: true, by: unordered, value: func(r *row) string {
		return task.HostName(string(r.Host[:min(len(r.Host), longHost)]))
	}},
	{title: "TASK", width: 6, by: unordered, value: func(r *row) string { return strconv.FormatUint(r.Task, 10) }},
	{title: "AGE", width: 7, by: byAge, value: func(r *row) string { return task.Brief(time.Duration(r.Duration)) }},
	{title: "TRY", width: 4, wide: true, by: unordered, value: func(r *row) string { return strconv.Itoa(r.Attempt) }},
	{title: "CPU%", width: 5, by: byCPU, value: func(r *row) string {
		return r.ifMeasured(strconv.FormatFloat(100*r.cpu, 'f', 0, 64))
	}},
	{title: "MEM", width: 6, wide: true, by: byMemory, value: func(r *row) string { return r.ifMeasured(strconv.FormatInt(r.memory>>20, 10) + "M") }},
	{title: "RECORD", width: 8, wide: true, some: true, left: true, by: unordered, value: (*row).record},
}

func (r *row) ifMeasured(value string) string {
	if !r.measured {
		return "-"
	}
	return value
}

// columns returns the columns for which there is room, as wide as their values.
func (v *view) columns(w int) (cols []column) {
	for _, col := range columns {
		if w < narrow && col.by == byWorker {
			col.title = "W"
		}
		width, shown := max(col.width, len(col.title)+1), !col.some
		for i := range v.running {
			value := col.value(&v.tasks[i])
			width, shown = max(width, len(value)+1), shown || value != ""
		}
		if col.width = width; col.left {
			col.width = min(width+1, w/4)
		}
		if shown && (w >= narrow || !col.wide) {
			cols = append(cols, col)
		}
	}
	return cols
}

// table draws the running tasks.
func (v *view) table(c *canvas, y, rows int) {
	running, cols := v.tasks[:v.running], v.columns(c.w)
	x := 0
	for _, col := range cols {
		style := c.bold
		if col.by == v.order {
			style = c.bold.Underline(true)
		}
		col.put(c, x, y, col.title, style)
		x += col.width
	}
	rows--
	v.page = max(rows, 1)
	c.list(y+1, rows, v.running, v.chosenRow(), &v.first, func(i, y int, style tcell.Style) {
		x, r := 0, &running[i]
		for _, col := range cols {
			col.put(c, x, y, col.value(r), style)
			x += col.width
		}
		name := r.name()
		if c.w < narrow {
			name = cmp.Or(r.record(), name)
		}
		c.text(x+2, y, c.w-3-x, printable(name, v.left), style)
	})
	title, style, shown := "COMMAND", c.bold, ""
	if v.running == 0 {
		title, style = "no task is running", c.dim
	} else if rows < v.running {
		shown = fmt.Sprintf(" %d-%d of %d", v.first+1, v.first+rows, v.running)
		c.right(x+2, y, c.w-3-x, shown, c.dim)
	}
	c.text(x+2, y, c.w-3-x-len(shown), title, style)
}

// put draws a value, or the title, of the column that begins at x.
func (col *column) put(c *canvas, x, y int, value string, style tcell.Style) {
	if col.left {
		c.text(x+2, y, col.width-2, value, style)
	} else {
		c.right(x+1, y, col.width-1, value, style)
	}
}

// drawRuns draws the runs of which one is to be chosen.
func (v *view) drawRuns(c *canvas) {
	c.title("crew ctl top: which run?")
	c.list(1, c.h-2, len(v.runs), v.run, &v.firstRun, func(i, y int, style tcell.Style) {
		c.line(y, v.runs[i].Line(), style)
	})
}

// title draws the first line of a screen.
func (c *canvas) title(text string) {
	c.fill(0, c.bar)
	c.line(0, text, c.bar.Bold(true))
}

// drawHelp draws what the keys do.
func (c *canvas) drawHelp() {
	c.title("crew ctl top: the keys")
	lines := []string{
		"up down    choose a task, also one that has ended; also k j, page up and down,",
		"           home, end",
		"left right shift the commands",
	}
	for _, cmd := range commands {
		lines = append(lines, fmt.Sprintf("%-10s %s", cmd.keys, cmd.help))
	}
	lines = append(lines, "CPU and memory are those of all processes of a task, CPU% of one processor")
	first := 0
	c.list(1, c.h-2, len(lines), -1, &first, func(i, y int, style tcell.Style) { c.line(y, lines[i], style) })
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
		c.line(y, v.message, c.warn)
	case v.over != "":
		c.line(y, v.overText()+"  q quit", c.warn)
	case silent > 0:
		c.line(y, "the run has not answered for "+task.Brief(silent)+": is it stopped?", c.warn)
	case v.runs != nil:
		c.line(y, "enter show  q quit", c.dim)
	case v.help || v.log != nil:
		c.line(y, "q back", c.dim)
	default:
		x := 1
		for _, cmd := range commands {
			if x+len(cmd.keys)+1+len(cmd.hint) > c.w-1 {
				break
			}
			x = c.text(x, y, c.w, cmd.keys, c.bold)
			x = c.text(x+1, y, c.w, cmd.hint, c.dim) + 2
		}
	}
}
