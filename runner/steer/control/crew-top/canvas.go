package main

import (
	"strings"

	"github.com/gdamore/tcell/v2"
	"github.com/rivo/uniseg"

	"crew/runner/decide/task"
)

// canvas is the screen during one redraw.
type canvas struct {
	tcell.Screen
	w, h int
	styles
}

// styles are the styles of text. They use the terminal's own palette, which suits its background.
// Without colors they differ only in attributes.
type styles struct {
	plain, bold, dim, bar, title, chosen, good, warn, bad tcell.Style
}

func newStyles(colors int) styles {
	p := tcell.StyleDefault
	s := styles{
		plain: p, bold: p.Bold(true), dim: p.Dim(true), bar: p.Reverse(true), title: p.Reverse(true).Bold(true), chosen: p.Reverse(true),
		good: p, warn: p.Bold(true), bad: p.Bold(true),
	}
	if colors >= 8 {
		s.good, s.warn, s.bad = p.Foreground(tcell.ColorGreen), p.Foreground(tcell.ColorOlive), p.Foreground(tcell.ColorMaroon)
	}
	return s
}

// pen writes into a part of a row: from column x up to, but not including, column end.
type pen struct {
	*canvas
	x, y, end int
}

// row returns a pen for a row without its first and last column.
func (c *canvas) row(y int) *pen { return &pen{c, 1, y, c.w - 1} }

// fill clears a row, gives it a style and returns a pen for it.
func (c *canvas) fill(y int, style tcell.Style) *pen {
	c.PutStrStyled(0, y, strings.Repeat(" ", c.w), style)
	return c.row(y)
}

// put writes s with control characters escaped, and cuts it at the end of the pen.
func (p *pen) put(s string, style tcell.Style) {
	room := p.end - p.x
	if room <= 0 {
		return
	}
	s = task.Cut(task.Printable(strings.ReplaceAll(task.Shorten(s, 8*room), "\t", " ")), room)
	p.PutStrStyled(p.x, p.y, s, style)
	p.x += uniseg.StringWidth(s)
}

// right writes s right-aligned and moves the end of the pen before it.
func (p *pen) right(s string, style tcell.Style) {
	last := *p
	p.end = max(p.x, p.end-uniseg.StringWidth(s))
	last.x = p.end
	last.put(s, style)
}

// cutLeft returns s with control characters escaped and without its first left columns.
func cutLeft(s string, left int) string {
	r := []rune(task.Printable(strings.ReplaceAll(s, "\t", "    ")))
	return string(r[min(left, len(r)):])
}

// firstShown returns the first of n items to show in rows: first, unless the chosen item would not be visible or
// rows would stay empty.
func firstShown(first, rows, n, chosen int) int {
	first = max(0, min(first, n-rows))
	if 0 <= chosen && chosen < n {
		first = min(max(first, chosen-rows+1), chosen)
	}
	return first
}

// list draws as many of n items as fit into rows from y on. first is the first item shown and is
// changed to keep the chosen item visible. chosen is -1 for none.
func (c *canvas) list(y, rows, n, chosen int, first *int, draw func(i int, p *pen, style tcell.Style)) {
	*first = firstShown(*first, rows, n, chosen)
	for i := *first; i < min(n, *first+rows); i++ {
		style := c.plain
		if i == chosen {
			style = c.chosen
			c.fill(y, style)
		}
		draw(i, c.row(y), style)
		y++
	}
}

// levels are the columns of a graph, lowest first.
const levels = "▁▂▃▄▅▆▇█"

// graph draws values, the last one at the right. Only 0 is drawn at the lowest level.
func (p *pen) graph(values []float64, highest float64) {
	for i, v := range values {
		level, style := 0, p.dim
		if v > 0 {
			level, style = 1+int(v/highest*6), p.good
		}
		p.Put(p.end-len(values)+i, p.y, string([]rune(levels)[min(level, 7)]), style)
	}
}
