package cli

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRules checks that each rule refuses a command line that meets its conditions.
func TestRules(t *testing.T) {
	refused := func(end, hint string, conds ...string) {
		c, args := lineOf(conds)
		l, err := c.split(args)
		require.NoError(t, err, args)
		o, err := c.read(l)
		require.NoError(t, err, args)
		all := o.refusals()
		hint, _, _ = strings.Cut(hint, "%s")
		i := slices.IndexFunc(all, func(e UsageError) bool { return strings.HasSuffix(e.Msg, end) && strings.HasPrefix(e.Hint, hint) })
		require.GreaterOrEqual(t, i, 0, "%s %s is not refused", c.name, args)
		require.NotContains(t, all[i].Hint, "%s")
	}
	for line := range strings.Lines(rules) {
		conds, others, what, hint := parseRule(line)
		for cond := range strings.FieldsSeq(conds) {
			if what != "" {
				refused("needs "+what, hint, cond)
				continue
			}
			for other := range strings.FieldsSeq(others) {
				refused("do not go together", hint, cond, other)
			}
		}
	}
}

// lineOf returns a command line that meets conditions.
func lineOf(conds []string) (c *command, args []string) {
	name, operands := DoRun, ""
	for _, cond := range conds {
		if of, found := strings.CutPrefix(cond, "crew-"); found {
			name, _, _ = strings.Cut(strings.Replace(of, "-", " ", 1), "&")
		}
		switch cond {
		case "crew-engine-attach":
			operands = " RUN"
		case "tls-cert", "tls-key":
			name = "engine serve"
		case "dir":
			name, operands = "engine invite", " NAME"
		case "openmetrics":
			name, operands = DoReport, " DIR"
		case "operands":
			name, operands = "ctl cancel", " 1"
		case "all&crew-ctl-drain":
			name = "ctl drain"
		case "all&crew-ctl-stop":
			name = "ctl stop"
		case "all":
			name = "ctl cancel"
		case "only":
			name = "ctl explain"
		case "to~^engine:.", "run~^engine:.", "in":
			name, operands = "ctl add", " a"
		}
	}
	c = commandNamed(name)
	for _, cond := range conds {
		for part := range strings.SplitSeq(cond, "&") {
			if words, found := states[part]; !found && !strings.HasPrefix(part, "crew-") && part[0] != '!' {
				args = append(args, optionOf(c, part))
			} else if strings.HasPrefix(words, "-") {
				args = append(args, strings.Fields(words)...)
			} else {
				operands += " " + words
			}
		}
	}
	return c, append(args, strings.Fields(operands)...)
}

// states maps conditions that are no options to words that make them hold.
var states = map[string]string{
	"command": "cat", "values": "::: a", "product": "::: a ::: b", "numbered": "{#}", "placed": "{%}", "in-times": "--joblog=X",
	"unused": "{}", "varied-dir": "--workdir={}", "shorter": "--retry-max-delay=1ms", "fewer": "--max-jobs=1", "operands": "",
}

// values maps regexps of conditions, names of options, or names of their values to values that fit.
var values = map[string]string{
	"{#}": "{#}", "[{][./]*[}]": "{}", "%": "now,fail=1%", "^pause": "pause,fail=1", ".": "X", "^engine:.": "engine:hub/q", "^0*[1-9][0-9]*$": "0",
	"^-$": "-", "^[+]$": "+", "^[0-9]+$": "4", "timeout": "timeout", "answer": "answer", "output": "output", "memory": "memory", "too-much": "too-much",
	"N": "2", "DUR": "5", "REGEX": ",", "SIZE": "1M", "K/N": "1/2", "topics": "a=1", "retry-on": "exit",
	"halt": "never", "deadline": "9m", "at": "23:59:59", "TASK": "1", "NAME=N": "x=1", "offers": "x=1", "setenv": "X=1", "N/PERIOD": "1/s",
}

// optionOf returns an option that makes a condition hold.
func optionOf(c *command, cond string) string {
	name, value, exact := strings.Cut(cond, "=")
	name, pattern, _ := strings.Cut(name, "~")
	name, other := strings.CutSuffix(name, "!")
	o := c.long(name)
	switch {
	case o.value == "":
		return "--" + name
	case exact && !other:
	case o.choices != "":
		choices := strings.Fields(o.choices)
		value = choices[(slices.Index(choices, value)+1)%len(choices)]
	default:
		value = cmp.Or(values[pattern], values[name], values[o.value], "X")
	}
	return "--" + name + "=" + value
}
