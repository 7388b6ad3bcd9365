// Package man embeds the manual pages of crew, which are written in mdoc. It finds parts of them and
// renders these as plain text.
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
	Source        string // in mdoc
}

// Pages lists all pages in the order of the search.
var Pages = [...]Page{
	{"crew", "1", crew1}, {"crew-serve", "1", serve1}, {"crew-engine", "1", engine1}, {"crew-state", "1", state1},
	{"crew-workers", "7", workers7}, {"crew-migrate", "7", migrate7}, {"crew", "7", crew7},
}

// String returns the usual name of the page, for example crew(1).
func (p *Page) String() string { return p.Name + "(" + p.Section + ")" }

// Part is a page, a section or subsection of it, or the entry of an option.
type Part struct {
	Page   *Page
	Title  string // "" for the whole page, or an entry
	Level  int    // 0 for the whole page, 1 for a section, 2 for a subsection, 3 for an entry
	source string
}

// Text renders the part as lines of at most width characters. Examples may be longer.
func (p *Part) Text(width int) string {
	r := renderer{width: width, name: p.Page.Name}
	r.render(p.source)
	return r.text()
}

// Whole returns the whole page as a part.
func (p *Page) Whole() *Part { return &Part{Page: p, source: p.Source} }

// Parts returns the sections and subsections of the page in order. A section includes its subsections.
func (p *Page) Parts() []*Part {
	var parts []*Part
	source := p.Source
	for at := 0; at < len(source); {
		rest := source[at:]
		line, _, _ := strings.Cut(rest, "\n")
		if title, found := strings.CutPrefix(line, ".Sh "); found {
			parts = append(parts, &Part{p, title, 1, until(rest, "\n.Sh ")})
		} else if title, found := strings.CutPrefix(line, ".Ss "); found {
			parts = append(parts, &Part{p, title, 2, until(until(rest, "\n.Sh "), "\n.Ss ")})
		}
		at += len(line) + 1
	}
	return parts
}

// until returns text up to the line that begins with mark, or all of it. mark begins with a newline.
func until(text, mark string) string {
	if before, _, found := strings.Cut(text, mark); found {
		return before + "\n"
	}
	return text
}

// Entry returns the entry of a long option in crew(1). It panics if there is none.
func Entry(option string) *Part {
	var entry strings.Builder
	depth := 0 // of nested lists; 1 in the list of the entry
	for line := range strings.Lines(Pages[0].Source) {
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

// isEntry reports whether the arguments of an .It name the long option.
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

// Mentions returns the sections and subsections that name a long option, except those of crew(1). The
// ones with the most mentions per byte come first. The text of a subsection does not count for its section.
func Mentions(option string) []*Part {
	named := regexp.MustCompile(`(?m)^\.[^D].* -` + option + `(?: |$)`)
	return ranked(Pages[1:], func(own string) int { return len(named.FindAllString(own, -1)) })
}

// Search returns the sections and subsections that contain a word in any case or form. The ones with
// the most matches per byte come first; a match in a list item counts tenfold. The text of a subsection
// does not count for its section.
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

// forms returns a pattern for words in any case and in other forms: the plural of a noun, or the -ed and
// -ing of a verb. edge is a character class that delimits the words, besides the start and the end of the text.
func forms(words, edge string) *regexp.Regexp {
	stem := strings.ToValidUTF8(words, "\uFFFD")
	if len(stem) > 2 {
		stem = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(stem), "s"), "e")
	}
	return regexp.MustCompile(`(?i)(?:^|` + edge + `)` + regexp.QuoteMeta(stem) + `(?:e?s?|e?d|ing)(?:` + edge + `|$)`)
}

// ranked returns the sections and subsections of pages for which count is positive, except generic ones,
// sorted by count per byte.
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

// Find returns the parts that match a topic, best first. A name of a page matches only that page.
// Otherwise a section or subsection matches if its title is the topic, begins with it or contains it, in
// any case or form. If there are no matches, those titles match that contain each word of the topic.
func Find(topic string) []*Part {
	var all []*Part
	for i := range Pages {
		p := &Pages[i]
		if topic == p.Name || topic == p.String() || topic == p.Name+"."+p.Section || topic == p.Section+" "+p.Name {
			return []*Part{p.Whole()}
		}
		all = append(all, p.Parts()...)
	}
	whole := forms(topic, "[ ,]")
	found := slices.DeleteFunc(all, func(p *Part) bool { return match(p.Title, whole) == 3 })
	slices.SortStableFunc(found, func(a, b *Part) int {
		return cmp.Or(match(a.Title, whole)-match(b.Title, whole), a.Level-b.Level)
	})
	if first, rest, several := strings.Cut(topic, " "); len(found) == 0 && several {
		word := forms(first, "[ ,]")
		return slices.DeleteFunc(Find(rest), func(p *Part) bool { return match(p.Title, word) == 3 })
	}
	return found
}

// match returns 0 if words match the whole title, 1 if they match its beginning, 2 if they match another
// part of it, and otherwise 3.
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

// Generic reports whether the part is a section that all or many pages have.
func (p *Part) Generic() bool {
	return strings.Contains("|NAME|SYNOPSIS|DESCRIPTION|FIRST EXAMPLES|OPTIONS|FILES|SEE ALSO|", "|"+p.Title+"|")
}

// Topics lists the sections of each page, without subsections, and then the words, in lines of up to
// width characters.
func Topics(width int, words []string) string {
	source := ".Bl -tag -width Ds -compact\n"
	item := func(tag string, words []string) {
		source += ".It " + tag + "\n" + strings.ReplaceAll(strings.Join(words, ",\n"), " ", `\ `) + "\n"
	}
	for i := range Pages {
		var titles []string
		for _, part := range Pages[i].Parts() {
			if part.Level == 1 && !part.Generic() {
				titles = append(titles, part.Title)
			}
		}
		item(Pages[i].String(), titles)
	}
	item("Common words", words)
	r := renderer{width: width}
	r.render(source + ".El\n")
	return r.text()
}
