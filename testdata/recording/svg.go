package main

import (
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
)

// The picture, in its own units.
const (
	cellWidth  = 8.4 // of most fonts with 14 units
	cellHeight = 19
	left, top  = 16, 44 // of the first cell
	below      = 14
)

const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="title desc">
<title id="title">crew in a terminal</title>
<desc id="desc">crew runs a command for twelve files, four at a time. A bar shows how many are done, how long the rest takes, and which tasks run longest. A task fails, and that is told at once. At the end, crew says what failed and why, and which command runs just that again. Then crew ctl top shows a run in the background on the whole screen: its running tasks, what waits for what, and what has ended.</desc>
<style>
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono","Liberation Mono",monospace;fill:#d1d7e0}
.bold{font-weight:700;fill:#f0f6fc}.dim{fill:#9198a1}.under{text-decoration:underline}
.c31{fill:#ff7b72}.c32{fill:#56d364}.c33{fill:#e3b341}.reverse{fill:#0d1117}
.box{fill:#d1d7e0}.cursor{fill:#6e7681}.track{fill:#30363d}
g{visibility:hidden;animation:%gs step-end infinite}.still{visibility:visible}
`

const window = `<rect x=".5" y=".5" width="%d" height="%d" rx="9" fill="#0d1117" stroke="#3d444d"/>
<circle cx="22" cy="18" r="5" class="track"/><circle cx="40" cy="18" r="5" class="track"/><circle cx="58" cy="18" r="5" class="track"/>
`

// picture returns an SVG that shows frames again and again. What stays the same over
// several frames is one element, and what is shown at the same times is one group.
func picture(frames []frame) string {
	var total time.Duration
	in, order := map[string][]int{}, []string(nil) // the frames that an element is in
	for i, f := range frames {
		total += f.stays
		for _, e := range f.elements() {
			if in[e] == nil {
				order = append(order, e)
			}
			in[e] = append(in[e], i)
		}
	}
	groups, times := map[string]string{}, []string(nil)
	for _, e := range order {
		t := steps(frames, in[e], total)
		if groups[t] == "" {
			times = append(times, t)
			class := ""
			if slices.Contains(in[e], slices.IndexFunc(frames, func(f frame) bool { return f.still })) {
				class = ` class="still"`
			}
			groups[t] = fmt.Sprintf("<g id=\"g%d\"%s>\n", len(times), class)
		}
		groups[t] += e + "\n"
	}
	width, height := int(2*left+cellWidth*float64(len(frames[0].cells[0]))), top+cellHeight*len(frames[0].cells)+below
	style, body := fmt.Sprintf(head, width, height, total.Seconds()), fmt.Sprintf(window, width-1, height-1)
	for i, t := range times {
		style += fmt.Sprintf("@keyframes k%d{%s}#g%[1]d{animation-name:k%[1]d}\n", i+1, t)
		body += groups[t] + "</g>\n"
	}
	return style + "@media(prefers-reduced-motion:reduce){g{animation:none!important}}\n</style>\n" + body + "</svg>\n"
}

// steps returns keyframes for what is in some of the frames.
func steps(frames []frame, in []int, total time.Duration) (t string) {
	var at time.Duration
	was := ""
	for i, f := range frames {
		is := "hidden"
		if slices.Contains(in, i) {
			is = "visible"
		}
		if is != was {
			t += fmt.Sprintf("%.4g%%{visibility:%s}", 100*at.Seconds()/total.Seconds(), is)
		}
		was, at = is, at+f.stays
	}
	return t
}

// elements returns the SVG elements of a frame. Text comes last, since it is above the
// others.
func (f *frame) elements() []string {
	var boxes, texts []string
	if !f.hidden {
		boxes = append(boxes, box(f.col, f.row, 1, 0, 1, "cursor"))
	}
	for y, row := range f.cells {
		for x := 0; x < len(row); {
			n := same(row[x:], func(c cell) bool { return c.look.reverse })
			if row[x].look.reverse {
				boxes = append(boxes, box(x, y, n, 0, 1, "box"))
			}
			x += n
		}
		for x := 0; x < len(row); {
			c := row[x]
			n := 1
			if low, high := block(c.char); high > 0 {
				n = same(row[x:], func(d cell) bool { return d == c })
				boxes = append(boxes, box(x, y, n, low, high, c.class()))
			} else if c.char != ' ' {
				n = word(row[x:])
				texts = append(texts, text(x, y, row[x:x+n]))
			}
			x += n
		}
	}
	return append(boxes, texts...)
}

// same returns how many cells at the beginning of row have the same property.
func same[T comparable](row []cell, property func(cell) T) int {
	n := slices.IndexFunc(row, func(c cell) bool { return property(c) != property(row[0]) })
	if n < 0 {
		n = len(row)
	}
	return n
}

// word returns how many cells at the beginning of row are text of one look, up to two
// blanks, as what follows these stays in its place.
func word(row []cell) int {
	n := 1
	for ; n < len(row) && row[n].look == row[0].look; n++ {
		_, high := block(row[n].char)
		if high > 0 || row[n].char == ' ' && (n+1 == len(row) || row[n+1].char == ' ' || row[n+1].look != row[0].look) {
			break
		}
	}
	return n
}

// block returns the part of a cell's height that a character fills, or 0 for one that is
// text. Fonts differ too much in these characters to draw them as text.
func block(r rune) (low, high float64) {
	switch {
	case '▁' <= r && r <= '▇':
		return 0.1, 0.1 + 0.8*float64(r-'▁'+1)/8
	case r == '█' || r == '░':
		return 0.1, 0.9
	}
	return 0, 0
}

func box(x, y, n int, low, high float64, class string) string {
	return fmt.Sprintf(`<rect x="%.4g" y="%.4g" width="%.4g" height="%.4g" class="%s"/>`, left+cellWidth*float64(x),
		top+cellHeight*(float64(y)+1-high), cellWidth*float64(n), cellHeight*(high-low), class)
}

// text returns text that is exactly as wide as its cells, in any font.
func text(x, y int, cells []cell) string {
	chars, class := "", cells[0].class()
	for _, c := range cells {
		chars += string(c.char)
	}
	if class != "" {
		class = ` class="` + class + `"`
	}
	return fmt.Sprintf(`<text x="%.4g" y="%d" textLength="%.4g" lengthAdjust="spacingAndGlyphs"%s>%s</text>`,
		left+cellWidth*float64(x), top+cellHeight*y+14, cellWidth*float64(len(cells)), class, html.EscapeString(chars))
}

// class returns the classes of a cell in the style sheet.
func (c cell) class() string {
	var list []string
	for _, l := range []struct {
		name string
		is   bool
	}{
		{"bold", c.look.bold}, {"dim", c.look.dim}, {"under", c.look.underline}, {"track", c.char == '░'},
		{fmt.Sprint("c", c.look.colour), c.look.colour != 0}, {"reverse", c.look.reverse},
	} {
		if l.is {
			list = append(list, l.name)
		}
	}
	return strings.Join(list, " ")
}
