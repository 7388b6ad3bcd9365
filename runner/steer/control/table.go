package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rivo/uniseg"

	"crew/runner/decide/task"
)

const (
	narrow = 60 // width of a terminal below which some columns are left out
	gap    = 2  // blanks between columns
)

// Table returns the lines of a table that fits into a width: the titles of its columns, which blanks separate,
// and a line for each row. A column without any text is left out. On a narrow terminal, a column with a + before
// its title is left out, too. A > after that marks a column of numbers, and a * the column of names, which are cut
// to make room. The other columns get at most a third of the width each, except that the caller cuts the end of the
// last one with the line.
func Table(width int, titles string, rows [][]any) (lines []string) {
	var columns [][]string
	var names []string
	room, fields := width, strings.Fields(titles)
	for i, title := range fields {
		cells := []string{strings.TrimLeft(title, "*+>")}
		mark := strings.TrimSuffix(title, cells[0])
		for _, row := range rows {
			text := strings.ReplaceAll(task.Printable(fmt.Sprint(row[i])), "\t", " ")
			if 0 < i && i < len(fields)-1 {
				text = task.Cut(text, width/3)
			}
			cells = append(cells, text)
		}
		if strings.Join(cells[1:], "") == "" || strings.HasPrefix(mark, "+") && width < narrow {
			continue
		}
		columns = append(columns, cells)
		w := widest(cells)
		if mark == "*" {
			names = cells[1:]
		} else {
			room -= min(w, width/3) + gap
		}
		for j := range cells {
			if strings.HasSuffix(mark, ">") {
				cells[j] = fmt.Sprintf("%*s", w, cells[j])
			}
		}
	}
	copy(names, distinct(names, room))
	for i, cells := range columns {
		if i == 0 {
			lines = make([]string, len(cells))
		}
		w := widest(cells)
		for j, cell := range cells {
			lines[j] += cell + strings.Repeat(" ", w-uniseg.StringWidth(cell)+gap)
		}
	}
	for j := range lines {
		lines[j] = strings.TrimRight(lines[j], " ")
	}
	return lines
}

// widest returns the width of the widest text.
func widest(texts []string) (width int) {
	for _, t := range texts {
		width = max(width, uniseg.StringWidth(t))
	}
	return width
}

// distinct returns names that are cut to a width, in a way that still tells them apart: if they do not
// fit, their common beginning goes first, up to a blank or a slash.
func distinct(names []string, width int) []string {
	common := ""
	if widest(names) > width && len(names) > 1 {
		common = names[0]
		for _, name := range names {
			for !strings.HasPrefix(name, common) {
				common = common[:len(common)-1]
			}
		}
	}
	cut := slices.Clone(names)
	for i, name := range names {
		if at := strings.LastIndexAny(common, " /"); at > 0 {
			name = "…" + name[at+1:]
		}
		cut[i] = task.Cut(name, max(width, 1))
	}
	return cut
}

// wrap breaks a text after commas and colons into lines of at most a width, if its parts allow that.
func wrap(text string, width int) (lines []string) {
	line := ""
	for part := range strings.SplitSeq(strings.NewReplacer(", ", ",\n", ": ", ":\n").Replace(text), "\n") {
		if line != "" && len(line+" "+part) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+part, " ")
	}
	return append(lines, line)
}
