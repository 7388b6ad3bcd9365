package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"crew/runner/decide/task"
)

// line is a command line, split into options and operands.
type line struct {
	uses     []use
	operands []string
	dashDash bool // a -- ended the options; it is not part of operands
}

// split splits args, which do not include the command's name. It handles forms that urfave/cli does not:
// attached values (-j4), bundles (-0kj4), values that begin with a dash (-j -1), and options between
// operands. For a command whose options end at the first operand, it keeps the rest as it is.
func (c *command) split(args []string) (line, error) {
	var l line
	for len(args) > 0 {
		arg, next := args[0], args[1:]
		var uses []use
		var err error
		switch {
		case arg == "--":
			l.dashDash = len(l.operands) == 0
			l.operands = append(l.operands, next...)
			return l, nil
		case c.takesRunOptions() && strings.IndexAny(arg, "—–−") == 0:
			hyphens := strings.NewReplacer("—", "--", "–", "-", "−", "-")
			return line{}, &UsageError{arg + " begins with a dash that is not a hyphen", "write " + hyphens.Replace(arg)}
		case len(arg) < 2 || arg[0] != '-', c.operands == takesSize && isNumber(arg[1:]), c.operands == takesTopic:
			if !c.optionsAnywhere() {
				l.operands = args
				return l, l.checkHeader()
			}
			l.operands, args = append(l.operands, arg), next
			continue
		case arg[1] == '-':
			uses, args, err = c.splitLong(arg, next)
		default:
			uses, args, err = c.splitShort(arg, next)
		}
		if err != nil && c.operands == takesVerb && len(l.operands) > 0 {
			return line{}, c.errVerb(l.operands)
		}
		if err != nil {
			return line{}, hintWorker(err, l.uses, arg)
		}
		l.uses = append(l.uses, uses...)
	}
	return l, nil
}

// checkHeader refuses the colon that can follow --header in GNU parallel.
func (l *line) checkHeader() error {
	if n := len(l.uses); n > 0 && l.uses[n-1].opt.name == "header" && l.operands[0] == ":" {
		return &UsageError{"--header takes only a number", "drop the : after it"}
	}
	return nil
}

// hintWorker returns err, the error for arg, with another hint if arg is probably an option of an unquoted
// --worker command.
func hintWorker(err error, before []use, arg string) error {
	if n := len(before) - 1; n >= 0 && before[n].opt.name == "worker" {
		err.(*UsageError).Hint = "if it is the worker's, quote the whole command: " + before[n].spelled + " " + task.Quote(before[n].value+" "+arg+" ...")
	}
	return err
}

// splitLong parses --name, --name=value or --name value. next holds the arguments after arg, and rest the
// arguments that it did not take.
func (c *command) splitLong(arg string, next []string) (uses []use, rest []string, err error) {
	name, value, attached := strings.Cut(arg[2:], "=")
	u := use{opt: c.long(name), spelled: "--" + name, value: value}
	switch {
	case u.opt == nil:
		return nil, nil, c.unknownLong(u.spelled)
	case u.opt.value == "" && attached:
		return nil, nil, &UsageError{u.spelled + " takes no value", "write " + u.spelled + " alone"}
	case u.opt.alone && !attached:
		if u.value = u.opt.implied; u.opt.value == "N" && len(next) > 0 && isNumber(next[0]) { // no program is called so
			u.value, next = next[0], next[1:]
		}
	case u.opt.value != "" && !attached:
		if len(next) == 0 {
			return nil, nil, missingValue(u)
		}
		u.value, next = next[0], next[1:]
	}
	return []use{u.resolve()}, next, nil
}

// splitShort parses a bundle of short options. The last one can have its value in the next argument. Options
// can follow an attached number (-n2k).
func (c *command) splitShort(arg string, next []string) (uses []use, rest []string, err error) {
	if name, _, _ := strings.Cut(arg[1:], "="); len(name) > 2 && c.long(name) != nil { // -dry-run would be -d ry-run
		return nil, nil, &UsageError{arg + " begins with a single dash", "write -" + arg}
	}
	for i := 1; i < len(arg); i++ {
		u := use{opt: c.short(arg[i]), spelled: "-" + arg[i:i+1]}
		attached := arg[i+1:]
		n := numberLen(attached)
		switch {
		case u.opt == nil:
			return nil, nil, c.unknownShort(arg, i)
		case u.opt.value == "":
		case u.opt.value == "N" && n < len(attached) && n > 0 && c.short(attached[n]) != nil:
			u.value = attached[:n]
			i += n
		case attached != "":
			u.value = attached
			i = len(arg)
		case len(next) > 0:
			u.value, next = next[0], next[1:]
		default:
			return nil, nil, missingValue(u)
		}
		uses = append(uses, u.resolve())
	}
	return uses, next, nil
}

// numberLen returns the length of the number at the start of s, including a sign and a percent sign, or 0 if
// there is none.
func numberLen(s string) int {
	digits := strings.TrimLeft(s, "+-")
	rest := strings.TrimLeft(digits, "0123456789")
	if len(s)-len(digits) > 1 || len(rest) == len(digits) {
		return 0
	}
	return len(s) - len(strings.TrimPrefix(rest, "%"))
}

// resolveN turns -N without --pipe into -n, which is its meaning in GNU parallel.
func resolveN(uses []use) {
	if slices.ContainsFunc(uses, func(u use) bool { return u.opt.name == "pipe" }) {
		return
	}
	for i := range uses {
		if u := &uses[i]; u.opt.name == "records" && u.spelled != "--records" {
			u.opt = long("max-args")
		}
	}
}

// wordPart matches the next part of a line of words: blanks, a quoted string, a character after a backslash,
// or any other character.
var wordPart = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?s)^(?:([ \t\n]+)|'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)|([^'"\\]))`)
})

// quotedEscapes replaces the escapes that a shell knows in double quotes.
var quotedEscapes = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\$`, `$`, "\\`", "`")

// shellWords splits s like a shell that knows blanks, quotes and backslashes, but no expansions.
func shellWords(s string) (words []string, err error) {
	inside := false // in a word, which may be empty: ''
	for s != "" {
		part := wordPart().FindStringSubmatch(s)
		switch {
		case s == `\`:
			return nil, errors.New("it ends in a backslash")
		case part == nil:
			return nil, fmt.Errorf("a %s in it is not closed", s[:1])
		case part[1] != "":
			inside = false
		default:
			if !inside {
				words = append(words, "")
			}
			inside = true
			words[len(words)-1] += part[2] + quotedEscapes.Replace(part[3]) + part[4] + part[5]
		}
		s = s[len(part[0]):]
	}
	return words, nil
}

// fromEnvironment parses the value of CREW_OPTS.
func fromEnvironment(value string) ([]use, error) {
	words, err := shellWords(value)
	if err != nil {
		return nil, &UsageError{"CREW_OPTS cannot be split into words", err.Error()}
	}
	l, err := commands[0].split(words)
	switch u, usage := errors.AsType[*UsageError](err); {
	case usage:
		return nil, &UsageError{"CREW_OPTS: " + u.Msg, u.Hint}
	case l.dashDash:
		return nil, &UsageError{`CREW_OPTS holds "--"`, "it may hold options only"}
	case len(l.operands) > 0:
		return nil, &UsageError{fmt.Sprintf("CREW_OPTS holds %q", l.operands[0]), "it may hold options only"}
	}
	for i := range l.uses {
		u := &l.uses[i]
		if hasWord("help version completion", u.opt.name) {
			return nil, &UsageError{"CREW_OPTS holds " + u.spelled, "with it, no run would ever start: write it on the command line instead"}
		}
		u.env = true
	}
	return l.uses, nil
}

// resolve replaces an abbreviation by the option and value that it stands for (-u is --output raw). It keeps
// the spelling.
func (u use) resolve() use {
	if name, value, ok := strings.Cut(u.opt.means, "="); ok {
		u.opt, u.value = long(name), value
	}
	return u
}
