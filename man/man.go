// Package man has the manual pages of crew, written in mdoc, and finds and renders
// parts of them as plain text.
package man

import (
	"cmp"
	_ "embed" // the pages
	"regexp"
	"slices"
	"strings"
)

var (
	//go:embed crew.1
	crew1 string
	//go:embed crew-serve.1
	serve1 string
	//go:embed crew-engine.1
	engine1 string
	//go:embed crew-state.1
	state1 string
	//go:embed crew-workers.7
	workers7 string
	//go:embed crew-migrate.7
	migrate7 string
	//go:embed crew.7
	crew7 string
)

// Page is a manual page.
type Page struct {
	Name, Section string
	source        *string
}

// Pages are all pages, in the order in which they are searched.
var Pages = [...]Page{
	{"crew", "1", &crew1}, {"crew-serve", "1", &serve1}, {"crew-engine", "1", &engine1}, {"crew-state", "1", &state1},
	{"crew-workers", "7", &workers7}, {"crew-migrate", "7", &migrate7}, {"crew", "7", &crew7},
}

// String returns the page as it is referred to, such as crew(1).
func (p *Page) String() string { return p.Name + "(" + p.Section + ")" }

// Source returns the page as it is written.
func (p *Page) Source() string { return *p.source }

// Part is a page, a section or subsection of it, or the entry of an option.
type Part struct {
	Page   *Page
	Title  string // "" for the whole page, or an entry
	Level  int    // 0 for the whole page, 1 for a section, 2 for a subsection, 3 for an entry
	source string
}

// Text renders the part for lines of up to width characters, which examples may exceed.
func (p *Part) Text(width int) string {
	r := renderer{width: width, name: p.Page.Name}
	r.render(p.source)
	return r.text()
}

// Whole returns the page as a part.
func (p *Page) Whole() *Part { return &Part{Page: p, source: p.Source()} }

// Parts returns the sections of the page, each before its subsections, which it includes.
func (p *Page) Parts() []*Part {
	var parts []*Part
	source := p.Source()
	for at := 0; at < len(source); {
		line, _, _ := strings.Cut(source[at:], "\n")
		rest := source[at:]
		if title, found := strings.CutPrefix(line, ".Sh "); found {
			parts = append(parts, &Part{p, title, 1, until(rest, "\n.Sh ")})
		} else if title, found := strings.CutPrefix(line, ".Ss "); found {
			parts = append(parts, &Part{p, title, 2, until(until(rest, "\n.Sh "), "\n.Ss ")})
		}
		at += len(line) + 1
	}
	return parts
}

// until returns the lines of text before the one that begins with mark.
func until(text, mark string) string {
	if before, _, found := strings.Cut(text, mark); found {
		return before + "\n"
	}
	return text
}

// Entry returns what crew(1) says of the long option of that name.
func Entry(option string) *Part {
	var entry strings.Builder
	depth := 0 // of lists, from the entry's own on
	for line := range strings.Lines(Pages[0].Source()) {
		macro, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case depth == 0 && macro == ".It" && isEntry(rest, option):
			depth = 1
		case depth == 0:
			continue
		case macro == ".Bl":
			depth++
		case macro == ".It" && depth == 1, macro == ".El" && depth == 1:
			return &Part{&Pages[0], "", 3, ".Bl -tag -width Ds -compact\n" + entry.String() + ".El\n"}
		case macro == ".El":
			depth--
		}
		entry.WriteString(line)
	}
	panic("internal error: no entry of --" + option)
}

// isEntry reports whether what an item of a list begins with names the long option.
func isEntry(item, option string) bool {
	for i, word := range strings.Fields(item) {
		switch {
		case word == "-"+option:
			return true
		case word != "Fl" && word != "," && (len(word) != 1 || i > 4):
			return false
		}
	}
	return false
}

// Mentions returns the sections and subsections of other pages than crew(1) whose own text
// names the long option, those with the most of it for their length first.
func Mentions(option string) []*Part {
	named := regexp.MustCompile(`(?m)^\.[^D].* -` + option + `(?: |$)`)
	return ranked(Pages[1:], func(own string) int { return len(named.FindAllString(own, -1)) })
}

// Search returns the sections and subsections whose own text has the word, in any case or
// form, those with the most of it for their length first. An item about it counts more.
func Search(word string) []*Part {
	forms := forms(word, "[^a-z]")
	return ranked(Pages[:], func(own string) (n int) {
		for line := range strings.Lines(own) {
			found := len(forms.FindAllString(line, -1))
			if strings.HasPrefix(line, ".It ") {
				found *= 10
			}
			n += found
		}
		return n
	})
}

// forms returns what matches words in any case, in the singular and the plural and, as in
// pause and pausing, as other forms of a verb, where edge or nothing is beside them.
func forms(words, edge string) *regexp.Regexp {
	stem := strings.ToValidUTF8(words, "\uFFFD")
	if len(stem) > 2 {
		stem = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(stem), "s"), "e")
	}
	return regexp.MustCompile(`(?i)(?:^|` + edge + `)` + regexp.QuoteMeta(stem) + `(?:e?s?|e?d|ing)(?:` + edge + `|$)`)
}

func ranked(pages []Page, count func(own string) int) []*Part {
	var parts []*Part
	share := map[*Part]float64{}
	for i := range pages {
		for _, part := range pages[i].Parts() {
			own := until(part.source, "\n.Ss ")
			if n := count(own); n > 0 && !part.Generic() {
				share[part] = float64(n) / float64(len(own))
				parts = append(parts, part)
			}
		}
	}
	slices.SortStableFunc(parts, func(a, b *Part) int { return cmp.Compare(share[b], share[a]) })
	return parts
}

// Find returns the parts that a topic may mean, best first: a page by its name, or the
// sections and subsections with that title, or whose title begins with these words or holds
// them, each in any case or form.
func Find(topic string) []*Part {
	var all []*Part
	for i := range Pages {
		p := &Pages[i]
		if topic == p.Name || topic == p.String() || topic == p.Name+"."+p.Section || topic == p.Section+" "+p.Name {
			return []*Part{p.Whole()}
		}
		all = append(all, p.Parts()...)
	}
	forms := forms(topic, "[ ,]")
	found := slices.DeleteFunc(all, func(p *Part) bool { return match(p.Title, forms) == 3 })
	slices.SortStableFunc(found, func(a, b *Part) int {
		return cmp.Or(match(a.Title, forms)-match(b.Title, forms), a.Level-b.Level)
	})
	return found
}

// match returns 0 if words are the title, 1 if it begins with them, 2 if it holds them,
// and otherwise 3.
func match(title string, words *regexp.Regexp) int {
	at := words.FindStringIndex(title)
	switch {
	case at == nil:
		return 3
	case at[0] > 0:
		return 2
	case at[1] < len(title):
		return 1
	}
	return 0
}

// Generic reports whether the part is a section that many pages have, or any.
func (p *Part) Generic() bool {
	return strings.Contains("|NAME|SYNOPSIS|DESCRIPTION|FIRST EXAMPLES|OPTIONS|FILES|SEE ALSO|", "|"+p.Title+"|")
}

// Topics lists the sections of each page, without subsections, and then the words, in lines of up to
// width characters.
func Topics(width int, words []string) string {
	var source strings.Builder
	for i := range Pages {
		p := &Pages[i]
		source.WriteString(".It " + p.String() + "\n")
		sep := ""
		for _, part := range p.Parts() {
			if part.Level == 1 && !part.Generic() {
				source.WriteString(sep + strings.ReplaceAll(part.Title, " ", `\ `))
				sep = ",\n"
			}
		}
		source.WriteString("\n")
	}
	source.WriteString(".It Common words\n" + strings.ReplaceAll(strings.Join(words, ",\n"), " ", `\ `) + "\n")
	r := renderer{width: width}
	r.render(".Bl -tag -width Ds -compact\n" + source.String() + ".El\n")
	return r.text()
}
