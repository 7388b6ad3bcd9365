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
	return render(p.source, p.Page.Name, width)
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
	start := regexp.MustCompile(`(?m)^\.It (?:Fl \S+ , )*Fl -` + option + `(?: .*)?$`).FindStringIndex(Pages[0].Source)
	entry, depth := "", 0 // of nested lists
	for line := range strings.Lines(Pages[0].Source[start[0]:]) {
		switch macro, _, _ := strings.Cut(strings.TrimSpace(line), " "); {
		case depth == 0 && entry != "" && (macro == ".It" || macro == ".El"):
			return &Part{&Pages[0], "", 3, ".Bl -tag -width indent -compact\n" + entry + ".El\n"}
		case macro == ".Bl":
			depth++
		case macro == ".El":
			depth--
		}
		entry += line
	}
	panic("internal error: no end of the entry of --" + option)
}

// Mentions returns the sections and subsections that name a long option, except generic ones and those of
// crew(1). The ones that name it most often per byte come first. The text of a subsection does not count for
// its section.
func Mentions(option string) []*Part {
	names := regexp.MustCompile(`(?m)^\.[^DI].* -` + option + `\s`)
	var parts []*Part
	share := map[*Part]float64{}
	for i := range Pages[1:] {
		for _, part := range Pages[1+i].Parts() {
			own := until(part.source, "\n.Ss ")
			if n := len(names.FindAllString(own, -1)); n > 0 && !part.Generic() {
				parts = append(parts, part)
				share[part] = float64(n) / float64(len(own))
			}
		}
	}
	slices.SortStableFunc(parts, func(a, b *Part) int { return cmp.Compare(share[b], share[a]) })
	return parts
}

// forms returns a pattern for a word in any case and in other forms: the plural of a noun, or the -ed and
// -ing of a verb.
func forms(word string) *regexp.Regexp {
	stem := strings.ToValidUTF8(word, "\uFFFD")
	if len(stem) > 2 {
		stem = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(stem), "s"), "e")
	}
	return regexp.MustCompile(`(?i)(?:^|[^a-z])` + regexp.QuoteMeta(stem) + `(?:e?s?|e?d|ing)(?:[^a-z]|$)`)
}

// Find returns the page that is called topic, or the sections and subsections whose titles contain each
// word of topic in any case or form, the shortest title first and sections before subsections.
func Find(topic string) []*Part {
	var parts []*Part
	for i := range Pages {
		p := &Pages[i]
		if topic == p.Name || topic == p.String() || topic == p.Name+"."+p.Section || topic == p.Section+" "+p.Name {
			return []*Part{p.Whole()}
		}
		parts = append(parts, p.Parts()...)
	}
	for word := range strings.FieldsSeq(topic) {
		form := forms(word)
		parts = slices.DeleteFunc(parts, func(p *Part) bool { return !form.MatchString(p.Title) })
	}
	slices.SortStableFunc(parts, func(a, b *Part) int { return cmp.Or(len(a.Title)-len(b.Title), a.Level-b.Level) })
	return parts
}

// Generic reports whether the part is a section that all or many pages have.
func (p *Part) Generic() bool {
	return strings.Contains("|NAME|SYNOPSIS|DESCRIPTION|FIRST EXAMPLES|OPTIONS|FILES|SEE ALSO|", "|"+p.Title+"|")
}

// Topics lists the sections of each page, without subsections, and then the words, in lines of up to
// width characters.
func Topics(width int, words []string) string {
	source := ".Bl -tag -width indent -compact\n"
	item := func(tag string, words []string) {
		source += ".It " + tag + "\n" + strings.ReplaceAll(strings.Join(words, ",\n"), " ", hard) + "\n"
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
	return render(source+".El\n", "", width)
}
