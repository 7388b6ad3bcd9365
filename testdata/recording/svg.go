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
<desc id="desc">crew runs a command for eight files, four at a time. A bar shows how many are done, how much time is left, and which tasks run longest. One task fails, and is reported at once. At the end, crew prints what failed and why, and the command that reruns only that. That command is then run, and succeeds.</desc>
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

// group is what is shown at the same times.
type group struct {
	times        string // as keyframes
	still        bool
	boxes, texts string
}

// picture returns an SVG that shows frames again and again. What stays the same over
// several frames is one element.
func picture(frames []frame) string {
	groups, total := grouped(frames)
	width, height := int(2*left+cellWidth*float64(len(frames[0].cells[0]))), top+cellHeight*len(frames[0].cells)+below
	style, boxes, texts := "", "", ""
	for i, g := range groups {
		style += fmt.Sprintf("@keyframes k%d{%s}.k%[1]d{animation-name:k%[1]d}\n", i+1, g.times)
		class := fmt.Sprint("k", i+1)
		if g.still {
			class += " still"
		}
		for _, part := range []struct{ to, what *string }{{&boxes, &g.boxes}, {&texts, &g.texts}} {
			if *part.what != "" {
				*part.to += fmt.Sprintf("<g class=%q>\n%s</g>\n", class, *part.what)
			}
		}
	}
	return fmt.Sprintf(head, width, height, total.Seconds()) + style + "@media(prefers-reduced-motion:reduce){g{animation:none!important}}\n</style>\n" +
		fmt.Sprintf(window, width-1, height-1) + boxes + texts + "</svg>\n"
}

// grouped returns what frames show, in the order in which it is first seen, and how long
// they take.
func grouped(frames []frame) (groups []*group, total time.Duration) {
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
	still := slices.IndexFunc(frames, func(f frame) bool { return f.still })
	for _, e := range order {
		times := keyframes(frames, in[e], total)
		i := slices.IndexFunc(groups, func(g *group) bool { return g.times == times })
		if i < 0 {
			i = len(groups)
			groups = append(groups, &group{times: times, still: slices.Contains(in[e], still)})
		}
		if strings.HasPrefix(e, "<text") {
			groups[i].texts += e + "\n"
		} else {
			groups[i].boxes += e + "\n"
		}
	}
	return groups, total
}

// keyframes returns when to show what is in some of the frames.
func keyframes(frames []frame, in []int, total time.Duration) (t string) {
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

// elements returns the SVG elements of a frame.
func (f *frame) elements() (list []string) {
	if !f.hidden {
		list = append(list, box(f.col, f.row, 1, 0, 1, "cursor"))
	}
	for y, row := range f.cells {
		for x := 0; x < len(row); {
			n := same(row[x:], func(c cell) bool { return c.look.reverse })
			if row[x].look.reverse {
				list = append(list, box(x, y, n, 0, 1, "box"))
			}
			x += n
		}
		for x := 0; x < len(row); {
			c := row[x]
			n := 1
			if low, high := block(c.char); high > 0 {
				n = same(row[x:], func(d cell) bool { return d == c })
				list = append(list, box(x, y, n, low, high, c.class()))
			} else if c.char != ' ' {
				n = word(row[x:])
				list = append(list, text(x, y, row[x:x+n]))
			}
			x += n
		}
	}
	return list
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

// text returns text that is as wide as its cells, in any font.
func text(x, y int, cells []cell) string {
	chars, class := "", cells[0].class()
	for _, c := range cells {
		chars += string(c.char)
	}
	if class != "" {
		class = ` class="` + class + `"`
	}
	if len(cells) > 2 {
		class += fmt.Sprintf(` textLength="%.4g" lengthAdjust="spacingAndGlyphs"`, cellWidth*float64(len(cells)))
	}
	return fmt.Sprintf(`<text x="%.4g" y="%d"%s>%s</text>`, left+cellWidth*float64(x), top+cellHeight*y+14, class, html.EscapeString(chars))
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
