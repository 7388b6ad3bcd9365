package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"

	"crew/runner/decide/task"
	"crew/runner/keep/series"
	"crew/runner/steer/control"
)

const (
	tall       = 16 // rows from which on the command of the run is shown
	longHost   = 20 // columns of a host name
	leastBar   = 12 // columns below which there is no progress bar
	leastGraph = 8  // columns below which there is no graph
)

// draw draws the view.
func (v *view) draw(s tcell.Screen) {
	s.Clear()
	w, h := s.Size()
	c := &canvas{Screen: s, w: w, h: h, styles: newStyles(s.Colors())}
	if v.over != "" {
		c.chosen = c.plain // a task of a run that is over cannot be acted on
	}
	switch {
	case h < 2 || w < 2:
	case v.runs != nil:
		c.fill(0, c.bar).put("crew ctl top: which run?", c.title)
		lines := control.Runs(v.runs, w-2)
		c.row(1).put(lines[0], c.bold)
		c.list(2, h-3, len(v.runs), v.run, &v.firstRun, func(i int, p *pen, style tcell.Style) { p.put(lines[1+i], style) })
	case v.log != nil:
		v.log.draw(c)
	default:
		y := v.header(c)
		v.body(c, y, h-1-y)
	}
	v.footer(c, c.fill(h-1, c.plain))
	s.Show()
}

// header draws the totals and returns the row below them.
func (v *view) header(c *canvas) int {
	s := &v.status
	p := c.fill(0, c.bar)
	p.right("  "+cmp.Or(v.over, s.State)+"  "+task.Brief(time.Duration(s.Elapsed)), c.title)
	p.put(fmt.Sprintf("%s  pid %d", cmp.Or(v.hello.Name, "crew"), v.hello.PID), c.title)
	y := 1
	if c.h >= tall {
		c.row(y).put(string(v.hello.Command), c.dim)
		y++
	}
	v.progress(c.row(y))
	if v.over != "" {
		return y + 1
	}
	p = c.row(y + 1)
	p.put(s.Pace()+" ", c.dim)
	v.graph(p)
	return y + 2
}

// graphs are the figures over time that the graph can show.
var graphs = [...]struct {
	of   series.Figure
	name string
	text func(float64) string
}{
	{series.Ended, "", task.Speed},
	{series.Failed, "failed ", task.Speed},
	{series.Running, "running ", figure},
	{series.Waiting, "waiting ", figure},
	{series.Memory, "memory ", func(v float64) string { return task.Size(int64(v)) }},
	{series.Load, "load ", figure},
}

// figure formats a number with three digits, or all that are before the point.
func figure(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// graph draws a figure of the run so far and, to the right of it, its scale, if there is room for both.
func (v *view) graph(p *pen) {
	g, width := &graphs[v.graphed], time.Duration(v.curves.Width)
	values := make([]float64, len(v.curves.Points))
	for i, point := range v.curves.Points {
		if values[i] = point[g.of]; g.of < series.Running {
			values[i] /= width.Seconds()
		}
	}
	if len(values) == 0 {
		return
	}
	text := fmt.Sprintf(" %sover %s: ", g.name, task.Brief(width*time.Duration(len(values))))
	if most := slices.Max(values); most > 0 {
		text += "max " + g.text(most)
	} else {
		text += "none"
	}
	room := p.end - p.x - len(text)
	if room < leastGraph {
		return
	}
	p.right(text, p.dim)
	var means []float64 // of the periods in each column
	for part := range slices.Chunk(values, (len(values)+room-1)/room) {
		sum := 0.0
		for _, value := range part {
			sum += value
		}
		means = append(means, sum/float64(len(part)))
	}
	p.graph(means, slices.Max(means))
}

// progress draws the totals and, if there is room, a progress bar.
func (v *view) progress(p *pen) {
	s := &v.status
	style := p.plain
	if s.Failed > 0 {
		style = p.bad
	}
	p.put(s.Progress.Text()+"  ", style)
	if s.Total == nil || *s.Total == 0 {
		return
	}
	percent := fmt.Sprintf(" %d%%", 100*s.Done / *s.Total)
	if room := p.end - p.x - len(percent); room >= leastBar {
		p.right(percent, p.plain)
		full := int(int64(room) * min(s.Done, *s.Total) / *s.Total)
		p.put(strings.Repeat("█", full), p.good)
		p.put(strings.Repeat("░", room-full), p.dim)
	}
}

// body divides the rows from y on between the running tasks, the reasons for waiting, and the tasks
// that ended. The chosen task is always visible.
func (v *view) body(c *canvas, y, rows int) {
	fit := func(lines, room int) int { // with a title
		if lines == 0 || room < 2 {
			return 0
		}
		return min(1+lines, room)
	}
	past := len(v.tasks) - v.running
	rest := rows - min(1+v.running, max(4, rows*2/3))
	room := rest
	if v.endedChosen { // it has a title, too
		rest = max(rest, min(2, rows-1))
		room = rest - 2
	}
	waits := fit(len(v.waits), min(room, max(2, rest/2, rest-1-past)))
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
		more, none := "", 0
		if n := len(v.waits) - waits + 1; n > 0 {
			more = fmt.Sprintf("%d more", n)
		}
		c.section(y, "WAITING", more)
		c.list(y+1, waits-1, len(v.waits), -1, &none, func(i int, p *pen, style tcell.Style) {
			if b := v.status.Blocking; b != nil && v.waits[i].Shown == b.Shown { // the reason why nothing starts
				style = c.warn
			}
			p.put(v.waits[i].Shown, style)
		})
		y += waits
	}
	if ended > 0 {
		y += gap
		c.section(y, "ENDED", "the latest first")
		c.list(y+1, ended-1, past, v.chosenRow()-v.running, &v.firstEnded, func(i int, p *pen, style tcell.Style) {
			t := &v.tasks[v.running+i]
			if !t.Outcome.Succeeded() && style == c.plain {
				style = c.bad
			}
			p.put(cutLeft(endedText(t), v.left), style)
		})
	}
}

// section draws the title of a section.
func (c *canvas) section(y int, title, more string) {
	p := c.row(y)
	p.put(title, c.bold)
	p.put("  "+more, c.dim)
}

// endedText describes a task that ended, or that failed and waits for its retry.
func endedText(t *row) string {
	at := "        "
	if !t.Start.IsZero() {
		at = t.Start.Add(time.Duration(t.Duration)).Local().Format(time.TimeOnly)
	}
	text := fmt.Sprintf("%s task %d: %s", at, t.Task, t.Verdict())
	if t.State == "waiting" {
		text += ", waits for its retry"
	}
	return text + ": " + t.name()
}

// orders are the orders of the running tasks, by the titles of columns.
var orders = [...]struct {
	by      string
	compare func(a, b *row) int
}{
	{"WORKER", func(a, b *row) int { return a.Worker - b.Worker }},
	{"AGE", func(a, b *row) int { return cmp.Compare(b.Duration, a.Duration) }},
	{"CPU%", func(a, b *row) int { return cmp.Compare(b.cpu, a.cpu) }},
	{"MEM", func(a, b *row) int { return cmp.Compare(b.memory, a.memory) }},
}

// measure formats a measured number of a task, or returns "-" if nothing was measured.
func (r *row) measure(format string, n float64) string {
	if !r.measured {
		return "-"
	}
	return fmt.Sprintf(format, n)
}

// table draws the running tasks.
func (v *view) table(c *canvas, y, rows int) {
	rows = max(rows-1, 0)
	v.page = max(rows, 1)
	chosen, none := v.chosenRow(), 0
	v.first = firstShown(v.first, rows, v.running, chosen)
	shown := v.tasks[v.first:min(v.first+rows, v.running)]
	var cells [][]any
	for i := range shown {
		r := &shown[i]
		cells = append(cells, []any{r.Worker, task.Cut(string(r.Host), longHost), r.Task, fmt.Sprintf("%6s", task.Brief(time.Duration(r.Duration))), r.Attempt,
			r.measure("%.0f", 100*r.cpu), r.measure("%4.0fM", float64(r.memory>>20)), cutLeft(r.name(), v.left)})
	}
	titles := "+>WORKER +HOST >TASK >AGE +>TRY >CPU% +>MEM "
	if v.left == 0 {
		titles += "*"
	}
	lines := control.Table(c.w-2, titles+"COMMAND", cells)
	c.list(y+1, rows, len(shown), chosen-v.first, &none, func(i int, p *pen, style tcell.Style) { p.put(lines[i+1], style) })
	p := c.row(y)
	switch {
	case v.running == 0:
		p.put("no task is running", c.dim)
		return
	case rows > 0 && rows < v.running:
		p.right(fmt.Sprintf(" %d-%d of %d", v.first+1, v.first+rows, v.running), c.dim)
	}
	if len(lines) > 0 {
		p.put(lines[0], c.bold)
	}
}

// footer draws the last line: a question, a message, or the keys.
func (v *view) footer(c *canvas, p *pen) {
	silent := v.silent()
	switch {
	case v.ask != nil:
		c.fill(p.y, c.bar)
		p.end -= 5
		p.put(v.ask.text, c.title)
		p.end += 5
		p.put("  y/n", c.title)
	case v.message != "":
		p.put(v.message, c.warn)
	case v.over != "":
		p.put(v.overText()+"  q quit", c.warn)
	case v.runs != nil:
		p.put("enter show  q quit", c.dim)
	case silent > 0:
		p.put("the run has not answered for "+task.Brief(silent)+": is it stopped?", c.warn)
	case v.log != nil:
		p.put("q back", c.dim)
	default:
		for _, cmd := range commands {
			if p.x+len(cmd.keys)+1+len(cmd.hint) > p.end {
				break
			}
			p.put(cmd.keys, c.bold)
			p.put(" "+cmd.hint, c.dim)
			p.x += 2
		}
	}
}
