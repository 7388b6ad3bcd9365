package cli

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"

	"crew/man"
	"crew/runner/decide/task"
)

// helpWidth returns how wide the manual is printed: as man(1) would, but no wider than --help.
func helpWidth() int {
	const widest = 80
	if n, err := strconv.Atoi(os.Getenv("MANWIDTH")); err == nil && n > 0 {
		return min(n, widest)
	}
	return widest
}

// takeTopic answers crew help TOPIC: with what --help says, and with parts of the manual.
func (o *Options) takeTopic(words []string) error {
	topic := strings.TrimPrefix(strings.Join(words, " "), "crew ")
	switch topic {
	case "", "help":
		o.Print = helpText()
	case "topics":
		o.Print = topicsHead + man.Topics(helpWidth())
	default:
		o.Print = cmp.Or(everydayHelp(topic), commandHelp(topic, topic), optionHelp(topic), commandHelp("ctl "+topic, topic), commandHelp("engine "+topic, topic), partHelp(topic))
	}
	if o.Print == "" {
		return &UsageError{
			fmt.Sprintf("there is no help on %q", topic),
			near(topic) + "crew help topics lists all; to run a program called help, write crew -- help",
		}
	}
	return nil
}

// everyday has the words of people who do not know crew's, each with the section of the
// manual about it, in the order of its titles.
const everyday = `
retry: Retries
retrying: Retries
backoff: Retries
resume: RESUMING A RUN
resuming: RESUMING A RUN
power: RESUMING A RUN
crash: RESUMING A RUN
quoting: VALUES IN SCRIPTS
quotes: VALUES IN SCRIPTS
quote: VALUES IN SCRIPTS
escaping: VALUES IN SCRIPTS
injection: VALUES IN SCRIPTS
queue: SERVING A QUEUE
gpu: Names and their units
gpus: Names and their units
cron: Later and again
schedule: Later and again
order: Priority and order
ctrl-c: SIGNALS
interrupt: SIGNALS
kill: SIGNALS
stop: SIGNALS
`

// everydayHelp returns the section for one of the everyday words, and which command or
// option of that name has a help of its own, or "".
func everydayHelp(topic string) string {
	word := strings.ToLower(topic)
	_, rest, found := strings.Cut(everyday, "\n"+word+": ")
	if !found {
		return ""
	}
	title, _, _ := strings.Cut(rest, "\n")
	more := ""
	if commandNamed("ctl "+word) != nil {
		more = "\nThere is also crew help ctl " + word + ".\n"
	} else if long(word) != nil {
		more = "\nThere is also crew help --" + word + ".\n"
	}
	return partHelp(title) + more
}

// commandHelp returns what --help prints after the command of that name and which sections
// the topic names, too, or "".
func commandHelp(name, topic string) string {
	if c := commandNamed(name); c != nil && name != DoRun {
		return c.help(false) + seeAlso("", man.Find(topic))
	}
	return ""
}

// near returns what the hint for an unknown topic begins with: sections that have the word,
// or else similar topics.
func near(topic string) string {
	var titles []string
	for _, p := range man.Search(topic) {
		if len(titles) < 3 {
			titles = append(titles, fmt.Sprintf("%q", p.Title))
		}
	}
	if titles != nil {
		return "the word is in " + strings.Join(titles, ", ") + "; "
	}
	var names []string
	for _, known := range topics() {
		names = append(names, known.Word)
	}
	if hint := didYouMean(strings.ToLower(topic), names, "", ""); hint != "" {
		return hint + " "
	}
	return ""
}

const topicsHead = `crew help TOPIC prints a section of the manual, named by its title or a word of
it, or else a page, an option such as --topics or a command such as ctl add.

`

// optionHelp returns the row and the entry of the option of runs that a topic names or, if it names
// options that only other commands have, their rows, each with its commands, or "".
func optionHelp(topic string) (text string) {
	letter := strings.TrimPrefix(topic, "-")
	for _, o := range options() {
		row := optionRows(false, func(row *option) bool { return row == o })
		named := topic == "--"+o.name
		switch {
		case o.ofRuns() && (named || topic == o.name || len(letter) == 1 && strings.Contains(o.short, letter)):
			return row + "\n" + man.Entry(o.name).Text(helpWidth()) + origin(&man.Pages[0], append(man.Find(o.name), man.Mentions(o.name)...))
		case named && o.of != "":
			of := "Of crew " + strings.NewReplacer("-", " ", " ", ", crew ").Replace(o.of)
			text += row + "\n" + task.Shorten(of, helpWidth()-1) + "\n"
		}
	}
	return text
}

// partHelp returns the part of the manual that a topic names best, and where others are
// that it may mean, or "".
func partHelp(topic string) string {
	parts := man.Find(topic)
	if len(parts) == 0 {
		return ""
	}
	text := parts[0].Text(helpWidth())
	if parts[0].Level == 0 {
		return text
	}
	return text + origin(parts[0].Page, parts[1:])
}

// origin returns the lines that end a part of a page: what it is from, and where there is more.
func origin(page *man.Page, more []*man.Part) string {
	from := fmt.Sprintf("\nThis is from %s.", page)
	return cmp.Or(seeAlso(from+" ", more), from+"\n")
}

// seeAlso returns the lines that say where there is more, up to four parts, behind others; "" for none.
func seeAlso(text string, parts []*man.Part) string {
	if len(parts) == 0 {
		return ""
	}
	text += "See also:\n"
	most := strings.Count(text, "\n") + 4
	for _, p := range parts {
		if line := fmt.Sprintf("  %s in %s\n", p.Title, p.Page); strings.Count(text, "\n") < most && !strings.Contains(text, line) {
			text += line
		}
	}
	return text
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

// topics returns what crew help may be asked for: commands, options, pages and sections.
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
