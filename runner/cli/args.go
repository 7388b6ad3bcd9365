package cli

import (
	"errors"
	"fmt"
	"strings"
)

// use is one option of the command line: which, how it was typed, with what.
type use struct {
	opt     *option
	spelled string // as typed, such as -k, for messages
	value   string // "" for an option without one
	env     bool   // it stands in CREW_OPTS
}

// word is the use in the one form that the parser is given: --name or
// --name=value.
func (u use) word() string {
	if u.opt.value == "" {
		return "--" + u.opt.name
	}
	return "--" + u.opt.name + "=" + u.value
}

// where is the option as typed, and where that was if not on the command line.
func (u use) where() string {
	if u.env {
		return u.spelled + " (from CREW_OPTS)"
	}
	return u.spelled
}

// name is where, with the value too if that is one of a set.
func (u use) name() string {
	if u.opt.choices == nil || u.spelled != "--"+u.opt.name {
		return u.where()
	}
	return u.with(u.value)
}

// with is where, with that value.
func (u use) with(value string) string {
	u.spelled += " " + value
	return u.where()
}

// line is a command line taken apart into its options and what follows them.
type line struct {
	uses  []use
	rest  []string
	ended bool // a -- ended the options; it belongs to neither part
}

// split takes args, without the program's name, apart. It does what urfave/cli
// does not: values that are attached (-j4), bundles (-0kj4), values that begin
// with a dash (-j -1), and options that end at the first word that is none, so
// that the command keeps its own.
func split(args []string) (line, error) {
	var l line
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			l.rest, l.ended = args[i+1:], true
			return l, nil
		case strings.HasPrefix(arg, "--"):
			u, took, err := splitLong(arg, args[i+1:])
			if err != nil {
				return line{}, err
			}
			l.uses = append(l.uses, u)
			i += took
		case len(arg) > 1 && arg[0] == '-':
			us, took, err := splitShort(arg, args[i+1:])
			if err != nil {
				return line{}, err
			}
			l.uses = append(l.uses, us...)
			i += took
		default:
			l.rest = args[i:]
			return l, nil
		}
	}
	return l, nil
}

// splitLong reads --name, --name=value or --name value. took is how many of
// the following words belong to it.
func splitLong(arg string, next []string) (u use, took int, err error) {
	name, value, attached := strings.Cut(arg[2:], "=")
	opt := long(name)
	if opt == nil {
		return use{}, 0, unknownOption("--" + name)
	}
	u = use{opt: opt, spelled: "--" + name, value: value}
	switch {
	case opt.value == "" && attached:
		return use{}, 0, &usageError{fmt.Sprintf("%s takes no value", u.spelled), "write " + u.spelled + " alone"}
	case opt.value != "" && !attached:
		if len(next) == 0 {
			return use{}, 0, missingValue(u)
		}
		u.value, took = next[0], 1
	}
	return u.resolve(), took, nil
}

// splitShort reads a bundle of short options. A value is attached or, for the
// last of them, in the next word; where it is a number, options may follow it.
func splitShort(arg string, next []string) (uses []use, took int, err error) {
	for i := 1; i < len(arg); i++ {
		opt := short(arg[i])
		if opt == nil {
			return nil, 0, unknownShort(arg, i)
		}
		u := use{opt: opt, spelled: "-" + arg[i:i+1]}
		if opt.value == "" {
			uses = append(uses, u.resolve())
			continue
		}
		if n := number(arg[i+1:]); opt.value == "N" && n > 0 && short(arg[i+1+n]) != nil {
			u.value = arg[i+1 : i+1+n]
			uses = append(uses, u.resolve())
			i += n
			continue
		}
		if i+1 < len(arg) {
			u.value = arg[i+1:]
		} else if len(next) > 0 {
			u.value, took = next[0], 1
		} else {
			return nil, 0, missingValue(u)
		}
		return append(uses, u.resolve()), took, nil
	}
	return uses, 0, nil
}

// number is the length of the number, with a sign or a percent sign perhaps,
// that s begins with; 0 where there is none or nothing follows it.
func number(s string) int {
	digits := strings.TrimLeft(s, "+-")
	rest := strings.TrimLeft(digits, "0123456789")
	if len(s)-len(digits) > 1 || len(rest) == len(digits) {
		return 0
	}
	rest = strings.TrimPrefix(rest, "%")
	if rest == "" {
		return 0
	}
	return len(s) - len(rest)
}

// resolve turns an option that only stands for another with a value into that
// one. The spelling stays.
func (u use) resolve() use {
	name, value, is := strings.Cut(u.opt.means, "=")
	if is {
		u.opt, u.value = long(name), value
	}
	return u
}

func missingValue(u use) error {
	return &usageError{u.spelled + " needs a value", "write " + u.spelled + " " + u.opt.value}
}

// Group is one ::: of the command line and what follows it.
type Group struct {
	Files  bool     // the words are names of files that hold the values, each a source of its own
	Linked bool     // it goes in step with the group before it, with no product
	Words  []string // the values, as they are
}

// operands takes what follows the options apart into the command and its
// groups of values.
func operands(rest []string) (command []string, groups []Group, err error) {
	for _, w := range rest {
		switch w {
		case ":::", "::::", ":::+", "::::+":
			groups = append(groups, Group{
				Files:  strings.HasPrefix(w, "::::"),
				Linked: strings.HasSuffix(w, "+"),
			})
			continue
		}
		if len(groups) == 0 {
			command = append(command, w)
			continue
		}
		g := &groups[len(groups)-1]
		g.Words = append(g.Words, w)
	}
	for _, g := range groups {
		if g.Files && len(g.Words) == 0 {
			return nil, nil, &usageError{":::: names no file", "write :::: FILE, or ::: for values on the command line"}
		}
	}
	return command, groups, nil
}

// shellWords splits the value of CREW_OPTS as a shell would that knows blanks,
// quotes and backslashes and expands nothing.
func shellWords(s string) ([]string, error) {
	var words []string
	var w strings.Builder
	var quote byte // the open quote, or 0
	in := false    // inside a word, which may be empty: ''
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && quote != '\'':
			if i++; i == len(s) {
				return nil, errors.New("it ends in a backslash")
			}
			// Inside "" a backslash is one unless it has something to protect.
			if quote == '"' && !strings.ContainsRune("\"\\$`", rune(s[i])) {
				w.WriteByte('\\')
			}
			w.WriteByte(s[i])
			in = true
		case c == quote && quote != 0:
			quote = 0
		case quote != 0:
			w.WriteByte(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if in {
				words = append(words, w.String())
				w.Reset()
			}
			in = false
		default:
			w.WriteByte(c)
			in = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a %c in it is not closed", quote)
	}
	if in {
		words = append(words, w.String())
	}
	return words, nil
}

// fromEnvironment is the options that CREW_OPTS holds.
func fromEnvironment(value string) ([]use, error) {
	if value == "" {
		return nil, nil
	}
	words, err := shellWords(value)
	if err != nil {
		return nil, &usageError{"CREW_OPTS cannot be split into words", err.Error()}
	}
	l, err := split(words)
	var u *usageError
	switch {
	case errors.As(err, &u):
		return nil, &usageError{"CREW_OPTS: " + u.msg, u.hint}
	case l.ended:
		return nil, &usageError{`CREW_OPTS holds "--"`, "it may hold options only"}
	case len(l.rest) > 0:
		return nil, &usageError{fmt.Sprintf("CREW_OPTS holds %q", l.rest[0]), "it may hold options only"}
	}
	for i := range l.uses {
		l.uses[i].env = true
	}
	return l.uses, nil
}
