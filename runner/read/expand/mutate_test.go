package expand

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"crew/runner/crewtest"
)

// tokens are texts that mutations insert into templates, by kind.
var tokens, _ = crewtest.Rows[[]string]("testdata/tokens.txt")

// wraps are texts that mutations put around parts of templates. @ stands for the part.
var wraps, _ = crewtest.Rows[string]("testdata/wraps.txt")

// mutator makes templates.
type mutator struct {
	*rand.Rand
	seeds []string
}

func (m mutator) pick(list []string) string { return list[m.IntN(len(list))] }

func (m mutator) token() string { return m.pick(tokens[m.IntN(len(tokens))]) }

// template returns a seed with a few random changes.
func (m mutator) template() string {
	s := m.pick(m.seeds)
	for range 1 + m.IntN(4) {
		s = m.change(s)
	}
	return s
}

// span returns a part of s, more often a short one than a long one.
func (m mutator) span(s string) (from, to int) {
	from = m.IntN(len(s) + 1)
	return from, min(len(s), from+m.IntN(1+m.IntN(12)))
}

// boundary returns an offset between two words of s, or any offset.
func (m mutator) boundary(s string) int {
	if at := boundaries.FindAllStringIndex(s, -1); len(at) > 0 && m.IntN(3) > 0 {
		return at[m.IntN(len(at))][m.IntN(2)]
	}
	return m.IntN(len(s) + 1)
}

var boundaries = regexp.MustCompile(`\{\}|[ \n;]+|\b`)

func (m mutator) change(s string) string {
	from, to := m.span(s)
	at := m.boundary(s)
	switch m.IntN(14) {
	case 0, 1, 2, 3:
		return s[:at] + m.token() + s[at:]
	case 4:
		return s[:from] + s[to:]
	case 5:
		return s[:from] + m.token() + s[to:]
	case 6:
		o := m.pick(m.seeds)
		i, j := m.span(o)
		return s[:at] + o[i:j] + s[at:]
	case 7:
		return s + m.pick([]string{"; ", "\n", " | ", " && ", "\r\n", " ", "\\\n", " & "}) + m.pick(m.seeds)
	case 8:
		return m.wrap(s)
	case 9:
		return s[:from] + m.wrap(s[from:to]) + s[to:]
	case 10: // a command before any word
		return strings.Replace(s, "p ", m.token()+m.pick([]string{"", "p "}), 1)
	case 11: // other words around the placeholder
		return strings.Replace(s, "{}", m.wrap("{}"), 1)
	case 12:
		return s[:at] + "\\\n" + s[at:]
	}
	return m.pick([]string{
		strings.ReplaceAll(s, "\n", "\r\n"), strings.ReplaceAll(s, "'", `"`), strings.ReplaceAll(s, `"`, "'"), strings.Replace(s, "$", "$\\\n", 1),
		strings.Replace(s, "\n", "\r\n", 1), strings.ReplaceAll(s, " ", "\\\n "), strings.Replace(s, "<", "<\\\n", 1), strings.Replace(s, "E", "'E'", 1), strings.ReplaceAll(s, "p ", m.token()),
		strings.Replace(s, "(", "(\\\n", 1), strings.Replace(s, "{}", "{} {}", 1), strings.Replace(s, "\n", "\\\n", 1), strings.Replace(s, "\n", "\\\n\n", 1),
	})
}

func (m mutator) wrap(s string) string {
	return strings.ReplaceAll(m.pick(wraps), "@", s)
}

// beyond applies simple rules to the text of a template, and returns the reason if the template may
// execute a value: it evaluates text, and a value can reach that text.
var beyond = []struct {
	why       string
	does, has *regexp.Regexp
}{
	{"eval", regexp.MustCompile(`\beval\b|\btrap\b|\bemulate\b|\bfc\b|\bhist\b|@P|\(e\)|PS4|-C\b`), carriers},
	{"an alias", regexp.MustCompile(`\balias\b|aliases`), regexp.MustCompile(``)},
	{"arithmetic on a variable it went into", regexp.MustCompile(`\(\(|\$\[|\blet\b|-(eq|ne|lt|le|gt|ge)\b|\[\[|[a-zA-Z]\[|\$\{[a-zA-Z@*]+:[^-+=?]`), regexp.MustCompile(`\b[a-zA-Z_]\w*\+?=|` + carriers.String())},
	{"a variable by which programs choose what they run", regexp.MustCompile(anyOf(commandVariables)), carriers},
	{"what \"$x\" does", regexp.MustCompile(`\b(declare|typeset|local|export|readonly|integer|float|nameref|read|unset|getopts|mapfile|readarray|printf|test|exit|return|shift|break|continue|wait|jobs|hash|set|repeat|enable|compgen|select|zstyle)\b|\[ |-v|\$\{!|\(P\)|OPTIND|RANDOM|COLUMNS|SECONDS|HISTSIZE|LINENO`), carriers},
	{". file", regexp.MustCompile(`(^|[^a-z.}])\. |\bsource\b|` + shellNames), regexp.MustCompile(`>`)},
	{"a pipe into a shell", regexp.MustCompile(shellNames + `|\b(crew|parallel)\b`), regexp.MustCompile(`\||<|>\(`)},
	{"another program's -c", regexp.MustCompile(shellNames + `|\b(env|flock|find|xargs)\b`), carriers},
	{"a command that the script names at run time", regexp.MustCompile("(^|[;&|({!\n`]|\\b(then|do|else|if|while|until|time|exec|command|builtin|env|nice|timeout|noglob|always)\\b)[^;&|\n]{0,12}([$`]|[<>]\\()"), regexp.MustCompile(``)},
}

// shellNames matches programs that pass text to a shell: shells, and others that crew knows. carriers matches
// ways for a value to get to another place: a variable (except those of the cage, unless they are assigned), a
// function's argument, the output of a command.
var (
	shellNames = anyOf("busybox watch " + families[posix] + " " + families[bash] + " " + loginShells)
	carriers   = regexp.MustCompile("\\$(\\{[#!=^~+(]*)?[a-gijlmpqtv-zA-Z_0-9@*]|\\$\\(|`|<\\(|\\bread\\b|\\b([hknorsu]|HOME)\\+?=|:=|\\b(for|select) [hknorsu]\\b")
	quotes     = strings.NewReplacer("\\\n", "", "'", "", `"`, "", `\`, "")
)

// anyOf returns an expression that matches each name in a list.
func anyOf(names list) string {
	return `\b(` + strings.Join(strings.Fields(string(names)), "|") + `)\b`
}

// outside returns why a template is outside of the promise that no value is executed, or "".
func outside(template string) string {
	s := quotes.Replace(template)
	for _, b := range beyond {
		if b.does.MatchString(s) && b.has.MatchString(s) {
			return b.why
		}
	}
	return ""
}

// seedTemplates returns the templates that mutations start from.
func seedTemplates(t testing.TB) []string {
	seeds := cagedIdioms(t)
	inside := readAttacks(t)
	for _, a := range inside {
		seeds = append(seeds, a.template)
	}
	for _, c := range contexts {
		s := strings.NewReplacer(" >/dev/null", "", "</dev/null", "", "/dev/stdout", "x", "/dev/stderr", "x").Replace(c.Script)
		if caged(s) {
			seeds = append(seeds, s)
		}
	}
	return seeds
}

// attack tries n mutated templates in every shell, with some values each, and returns the attempts that
// broke the promise.
func (c *cage) attack(t testing.TB, m mutator, n, values int) (bad []attempt) {
	t.Helper()
	lists := map[string][]attempt{}
	for range n {
		template := m.template()
		if len(template) > 1000 || !caged(template) {
			continue
		}
		from := m.IntN(len(payloads))
		for _, shell := range c.shells {
			if !slices.Contains(distinct, shell) {
				continue
			}
			for i := range values {
				a, ok := newAttempt(template, payloads[(from+i*17)%len(payloads)], shell, len(lists[shell]))
				if !ok {
					continue
				}
				lists[shell] = append(lists[shell], a)
			}
		}
	}
	for _, shell := range c.shells {
		for _, a := range c.try(t, lists[shell]) {
			if why := outside(a.template); why == "" {
				bad = append(bad, a)
			} else if crewtest.Soaking() {
				t.Logf("outside, %s: %s %q with %q", why, a.shell, a.template, a.value)
			}
		}
	}
	return bad
}

var distinct = []string{"/bin/sh", "bash", "busybox sh"}

// TestMutated tries randomly changed templates. The variables of the cage name no shell and not eval
// here, because the templates often run variables.
func TestMutated(t *testing.T) {
	c, seeds := newCage(t), seedTemplates(t)
	c.env = []string{"s=p", "h=p", "o=-i", "r=-c", "n=x", "k=3"}
	if crewtest.Soaking() { // a few of thousands never end
		c.timeout = 10 * time.Second
	}
	for round := range crewtest.Rounds(2) {
		for _, a := range c.attack(t, mutator{crewtest.Rand(t, round), seeds}, 50, 2) {
			t.Error(round, a)
		}
	}
}
