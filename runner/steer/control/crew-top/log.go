package main

import (
	"bytes"
	"cmp"
	"fmt"

	"github.com/gdamore/tcell/v2"

	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

const (
	keptLines = 5000
	longest   = 2048 // bytes kept of a line
)

// log is the output of a task that is being shown, or the list of keys.
type log struct {
	id    uint64 // 0 for the keys
	state string // of the task when the log was opened; as in task.Where
	title string
	close func() // stops following

	lines []*logLine
	open  [2]*logLine // the incomplete last lines of stdout and stderr
	ended string      // how the task ended; "" while it runs

	first  int // the first line shown, unless follow
	follow bool
	left   int // hidden columns on the left
	page   int // number of lines shown
}

// logLine is a line of output.
type logLine struct {
	text   []byte
	stderr bool
}

// addReply adds a reply to a request for the output.
func (l *log) addReply(r *control.Reply) {
	if r.Cut > 0 {
		l.add(fmt.Appendf(nil, "… %d bytes before this are not kept\n", r.Cut), r.Stream == "stderr")
	}
	l.add(r.Data, r.Stream == "stderr")
	if len(r.Ended) > 0 {
		l.ended = "ended: " + r.Ended[0].Outcome.String()
	}
}

// add adds output. As on a terminal, text after a carriage return replaces the line.
func (l *log) add(p []byte, stderr bool) {
	stream := 0
	if stderr {
		stream = 1
	}
	for len(p) > 0 {
		piece, rest, whole := bytes.Cut(p, []byte("\n"))
		line := l.open[stream]
		if line == nil {
			line = &logLine{stderr: stderr}
			l.lines = append(l.lines, line)
		}
		line.text = append(line.text, piece...)
		if i := bytes.LastIndexByte(bytes.TrimRight(line.text, "\r"), '\r'); i >= 0 {
			line.text = line.text[i+1:]
		}
		line.text = line.text[:min(len(line.text), longest)]
		l.open[stream], p = line, rest
		if whole {
			l.open[stream] = nil
		}
	}
	if more := len(l.lines) - keptLines; more > 0 {
		l.lines = append([]*logLine(nil), l.lines[more:]...)
		l.first = max(0, l.first-more)
	}
}

// draw draws the log on the whole screen except the last line.
func (l *log) draw(c *canvas) {
	p := c.fill(0, c.bar)
	if l.id > 0 {
		p.put(fmt.Sprintf("task %d  %s  ", l.id, cmp.Or(l.ended, l.state)), c.title)
	}
	p.put(l.title, c.bar)
	l.page = max(1, c.h-2)
	if l.follow {
		l.first = len(l.lines)
	}
	c.list(1, c.h-2, len(l.lines), -1, &l.first, func(i int, p *pen, style tcell.Style) {
		if l.lines[i].stderr {
			style = c.bad
		}
		text := task.Uncoloured(bytes.TrimRight(l.lines[i].text, "\r"))
		p.x, p.end = 0, c.w
		p.put(cutLeft(string(text), l.left), style)
	})
	if len(l.lines) == 0 {
		c.row(1).put("no output yet", c.dim)
	}
}

// scroll scrolls by some rows. At the end it begins to follow new output.
func (l *log) scroll(rows int) {
	l.first = max(0, min(l.first, len(l.lines)-l.page)+rows)
	l.follow = l.first >= len(l.lines)-l.page
}
