package main

import (
	"strings"

	"github.com/gdamore/tcell/v2"

	"crew/runner/task"
)

// canvas is the screen while one picture is drawn on it.
type canvas struct {
	tcell.Screen
	w, h int
	styles
}

// styles are the looks of text. Colors are the terminal's own, so they go with its
// background; without colors, attributes alone tell them apart.
type styles struct {
	plain, bold, dim, bar, chosen, good, warn, bad tcell.Style
}

func newStyles(colors int) styles {
	p := tcell.StyleDefault
	s := styles{
		plain: p, bold: p.Bold(true), dim: p.Dim(true), bar: p.Reverse(true), chosen: p.Reverse(true),
		good: p, warn: p.Bold(true), bad: p.Bold(true),
	}
	if colors >= 8 {
		s.good, s.warn, s.bad = p.Foreground(tcell.ColorGreen), p.Foreground(tcell.ColorOlive), p.Foreground(tcell.ColorMaroon)
	}
	return s
}

// text puts s into width columns from x on, without control characters, cut if it
// is too long. It returns the column behind it.
func (c *canvas) text(x, y, width int, s string, style tcell.Style) int {
	s = task.Printable(strings.ReplaceAll(task.Shorten(s, 8*max(width, 0)), "\t", " "))
	end, last := min(x+width, c.w), x
	for s != "" && x < end {
		rest, n := c.Put(x, y, s, style)
		if n == 0 {
			break
		}
		if x+n > end || x+n == end && rest != "" { // no room, or none for what follows
			if x+n > end || n > 1 {
				c.Put(x, y, " ", style) // a wide character
			}
			c.Put(end-1, y, "…", style)
			return end
		}
		s, last = rest, x+n
		x = last
	}
	return last
}

// line puts s into a row, and returns the column behind it.
func (c *canvas) line(y int, s string, style tcell.Style) int { return c.text(1, y, c.w-2, s, style) }

// printable returns s without control characters and the first columns.
func printable(s string, left int) string {
	s = task.Printable(strings.ReplaceAll(s, "\t", "    "))
	if left > 0 {
		r := []rune(s)
		s = string(r[min(left, len(r)):])
	}
	return s
}

// right puts s at the right of width columns from x on.
func (c *canvas) right(x, y, width int, s string, style tcell.Style) {
	c.text(x+max(0, width-len(s)), y, width, s, style)
}

// fill gives a row a style.
func (c *canvas) fill(y int, style tcell.Style) {
	for x := range c.w {
		c.Put(x, y, " ", style)
	}
}

// list draws those of n items for which there are rows from y on. first is the first one
// shown and changes so that the chosen one, of which there may be none, is visible.
func (c *canvas) list(y, rows, n, chosen int, first *int, draw func(i, y int, style tcell.Style)) {
	*first = max(0, min(*first, n-rows))
	if 0 <= chosen && chosen < n {
		*first = min(max(*first, chosen-rows+1), chosen)
	}
	for i := *first; i < min(n, *first+rows); i++ {
		style := c.plain
		if i == chosen {
			style = c.chosen
			c.fill(y, style)
		}
		draw(i, y, style)
		y++
	}
}

// fallbacks are for terminals without Unicode.
var fallbacks = [...]struct{ char, instead string }{
	{"…", "~"}, {"▁", "_"}, {"▂", "."}, {"▃", ":"}, {"▄", "-"}, {"▅", "="}, {"▆", "+"}, {"▇", "*"}, {"█", "#"}, {"░", "."},
}

// levels are the columns of a graph by height.
const levels = "▁▂▃▄▅▆▇█"

// graph puts the latest values into width columns, the last at the right. Only 0
// has the lowest level.
func (c *canvas) graph(x, y, width int, values []float64, highest float64) {
	values = values[max(0, len(values)-max(0, width)):]
	x += width - len(values)
	for i, v := range values {
		level, style := 0, c.dim
		if v > 0 {
			level, style = 1+int(v/highest*6), c.good
		}
		c.Put(x+i, y, string([]rune(levels)[min(level, 7)]), style)
	}
}
