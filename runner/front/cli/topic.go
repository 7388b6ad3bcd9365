package cli

import (
	"cmp"
	_ "embed" // the index
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"crew/man"
	"crew/runner/decide/task"
)

// helpWidth returns the width of printed parts of the manual: MANWIDTH, as for man(1), or 80, whichever
// is less.
func helpWidth() int {
	const widest = 80
	if n, err := strconv.Atoi(os.Getenv("MANWIDTH")); err == nil && n > 0 {
		return min(n, widest)
	}
	return widest
}

// takeTopic sets o.Print to the answer to crew help TOPIC: help on a command or an option, or a part of
// the manual. It returns a UsageError for an unknown topic.
func (o *Options) takeTopic(words []string) error {
	topic := strings.TrimSpace(strings.TrimPrefix(strings.Join(words, " "), "crew "))
	known := topic
	if len(topic) > len("-x") { // letters differ in case
		known = strings.ToLower(topic)
	}
	switch known {
	case "", "help":
		o.Print = helpText()
	case "topics":
		o.Print = topicsHead + man.Topics(helpWidth(), indexWords())
	default:
		o.Print = cmp.Or(indexHelp(known), commandHelp(known, known), optionHelp(strings.ReplaceAll(known, " ", "-")), commandHelp("ctl "+known, known), commandHelp("engine "+known, known), partsHelp(man.Find(known)))
	}
	if o.Print == "" {
		return &UsageError{
			fmt.Sprintf("there is no help on %q", topic),
			instead(topic) + "crew help topics lists the topics",
		}
	}
	return nil
}

// index maps common words to sections of the manual. Each line has the title of a section and the words
// that lead to it. If a word is on several lines, the first section is printed, and "See also" lists the
// others.
//
//go:embed topics.txt
var index string

// indexHelp returns the first section that the index has for topic, followed by references to the other
// sections. It returns "" if topic is not in the index.
func indexHelp(topic string) string {
	word := plainWord(topic)
	var parts []*man.Part
	for line := range strings.Lines(index) {
		title, words, _ := strings.Cut(strings.TrimSpace(line), ": ")
		for w := range strings.SplitSeq(words, ", ") {
			if plainWord(w) == word {
				parts = append(parts, man.Find(title)[0])
			}
		}
	}
	return partsHelp(parts)
}

// indexWords returns the first word of each line of the index, sorted.
func indexWords() (words []string) {
	for line := range strings.Lines(index) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ": ")
		word, _, _ := strings.Cut(rest, ", ")
		words = append(words, word)
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// plainWord returns topic in lower case, with blanks instead of hyphens and underscores.
func plainWord(topic string) string {
	return strings.NewReplacer("-", " ", "_", " ").Replace(strings.ToLower(topic))
}

// commandHelp returns the --help of the command called name, followed by references to sections about
// topic, or "" if there is no such command.
func commandHelp(name, topic string) string {
	if c := commandNamed(name); c != nil && name != DoRun {
		return c.help(false) + seeAlso("", man.Find(topic))
	}
	return ""
}

// instead returns the beginning of the hint for an unknown topic: what crew has instead of an option of another
// tool, or "".
func instead(topic string) string {
	if name := strings.TrimLeft(topic, "-"); name != topic {
		if own := lookupPeer(name, meansOption); own != "" {
			return "crew calls it --" + own + "; "
		}
		if advice := lookupPeer(name, meansAdvice); advice != "" {
			return advice + "; "
		}
	}
	return ""
}

const topicsHead = `crew help TOPIC prints a section of the manual. TOPIC is a word of its title or
a common word, for example retry or cron. It can also be a page, an option
(--topics) or a command (ctl add).

`

// optionHelp returns the help on an option: for an option of runs its row of --help and its entry in
// crew(1), for options of other commands their rows and commands. It returns "" if topic is no option.
func optionHelp(topic string) (text string) {
	letter := strings.TrimPrefix(topic, "-")
	for _, o := range options() {
		row := optionRows(false, func(row *option) bool { return *row == *o })
		named := topic == "--"+o.name
		switch {
		case o.ofRuns() && (named || topic == o.name || len(letter) == 1 && strings.Contains(o.short, letter)):
			return row + "\n" + partsHelp(slices.Concat([]*man.Part{man.Entry(o.name)}, man.Find(o.name), man.Mentions(o.name)))
		case named && o.commands != "":
			of := "Of crew " + strings.NewReplacer("-", " ", " ", ", crew ").Replace(o.commands)
			text += row + "\n" + task.Shorten(of, helpWidth()-1) + "\n"
		}
	}
	return text
}

// partsHelp returns the first part, the name of its page unless the part is the page, and references to the
// other parts. It returns "" if there are none.
func partsHelp(parts []*man.Part) string {
	if len(parts) == 0 {
		return ""
	}
	text := parts[0].Text(helpWidth())
	if parts[0].Level == 0 {
		return text
	}
	from := fmt.Sprintf("\nThis is from %s.", parts[0].Page)
	return text + cmp.Or(seeAlso(from+" ", parts[1:]), from+"\n")
}

// seeAlso returns text followed by references to up to four parts, or "" if there are no parts.
func seeAlso(text string, parts []*man.Part) string {
	var lines []string
	for _, p := range parts {
		if line := fmt.Sprintf("  %s in %s\n", p.Title, p.Page); len(lines) < 4 && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	if lines == nil {
		return ""
	}
	return text + "See also:\n" + strings.Join(lines, "")
}

// page returns the name of the manual page of a command.
func (c *command) page() string {
	tool, _, _ := strings.Cut(c.name, " ")
	switch tool {
	case "serve", "ctl":
		return "crew-serve"
	case "worker", "engine":
		return "crew-engine"
	}
	return "crew-state"
}

// topics returns the known topics of crew help: commands, options, pages and sections.
func topics() (all []Candidate) {
	for _, c := range commands[1:] {
		all = append(all, Candidate{c.name, c.text})
	}
	for _, o := range options() {
		if o.ofRuns() {
			all = append(all, Candidate{o.name, o.text})
		}
	}
	for i := range man.Pages {
		p := &man.Pages[i]
		all = append(all, Candidate{p.Name + "." + p.Section, p.String()})
		for _, part := range p.Parts() {
			if !part.Generic() {
				all = append(all, Candidate{strings.ToLower(part.Title), p.String()})
			}
		}
	}
	return all
}
