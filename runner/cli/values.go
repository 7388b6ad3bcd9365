package cli

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"crew/runner/core"
	"crew/runner/proc"
	"crew/runner/task"
)

// The functions of this file parse the values of options. Their errors are hints:
// they say what to write instead.

// parseWhole parses a decimal number from least to most, without a plus sign.
func parseWhole(s string, least, most int) (int, error) {
	n, err := strconv.Atoi(s)
	if err == nil && n >= least && n <= most && s[0] != '+' {
		return n, nil
	}
	if most == math.MaxInt && !errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("write a whole number from %d up", least)
	}
	return 0, fmt.Errorf("write a whole number from %d to %d", least, most)
}

// parseName parses the name of a run, which must not look like the number of a
// process.
func parseName(s string) (string, error) {
	wrong := func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.In(r, unicode.L, unicode.Nd) && !strings.ContainsRune("-_.", r)
	}
	if s == "" || len(s) > 64 || strings.ContainsFunc(s, wrong) || s[0] == '-' || isNumber(s) {
		return "", errors.New("write up to 64 letters, digits and -_. that are not a number")
	}
	return s, nil
}

// parseQueue reads the name of a queue, which is a part of the names of NATS's subjects.
func parseQueue(s string) (string, error) {
	if _, err := parseName(s); err != nil || strings.Contains(s, ".") {
		return "", errors.New("write up to 64 letters, digits, - and _ that are not a number")
	}
	return s, nil
}

// The longest time allowed. Sums of a few do not overflow.
const (
	mostDays     = 36500
	mostDuration = mostDays * 24 * time.Hour
)

// parseVariable parses the name of an environment variable.
func parseVariable(s string) (string, error) {
	wrong := func(r rune) bool { return r > unicode.MaxASCII || !unicode.In(r, unicode.L, unicode.Nd) && r != '_' }
	if s == "" || strings.ContainsFunc(s, wrong) || s[0] >= '0' && s[0] <= '9' {
		return "", errors.New("write the name of a variable, such as LANG; its value is that of crew's")
	}
	return s, nil
}

// parseLabels parses names separated by commas.
func parseLabels(s string) ([]string, error) {
	list := strings.Split(s, ",")
	for _, l := range list {
		if _, err := parseName(l); err != nil {
			return nil, errors.New("write names separated by commas, such as gpu,eu")
		}
	}
	return list, nil
}

// parseDuration parses a number of seconds, as timeout(1) does, or what
// time.ParseDuration knows, with days before it: 10, 1.5s, 500ms, 1h30m, 1d12h.
func parseDuration(s string) (time.Duration, error) {
	hint := errors.New("write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d")
	const decimal = "0123456789."
	if strings.Trim(s, decimal) == "" {
		s += "s"
	}
	days, rest, found := strings.Cut(s, "d")
	switch {
	case !found:
		days, rest = "0", s
	case rest == "":
		rest = "0"
	}
	n, err := strconv.ParseFloat(days, 64)
	d, err2 := time.ParseDuration(rest)
	if err != nil || err2 != nil || strings.Trim(days, decimal) != "" || n > mostDays || d < 0 || d > mostDuration {
		return 0, hint
	}
	if d += time.Duration(n * float64(24*time.Hour)); d > mostDuration {
		return 0, hint
	}
	return d, nil
}

// parseDeadline parses a duration, a local time of day that is still to come, or a
// moment in the form of RFC 3339.
func parseDeadline(s string, now time.Time) (Deadline, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return Deadline{Until: t}, nil
	}
	for _, form := range [...]string{"15:04", "15:04:05"} {
		t, err := time.Parse(form, s)
		if err != nil {
			continue
		}
		until := now
		for year, month, day := now.Date(); !until.After(now); day++ {
			until = time.Date(year, month, day, t.Hour(), t.Minute(), t.Second(), 0, now.Location())
		}
		return Deadline{Until: until}, nil
	}
	d, err := parseDuration(s)
	if err != nil || d == 0 {
		return Deadline{}, errors.New("write a time such as 90m, 06:00 or 2027-01-31T06:00:00Z")
	}
	return Deadline{After: d}, nil
}

// parseRetryOn parses a list of exit, exit:N, exit:N-M, signal, timeout, start,
// answer and any, separated by commas.
func parseRetryOn(s string) (RetryOn, error) {
	hint := errors.New("write a list of exit, exit:N, exit:N-M, signal, timeout, start, answer, any; N is from 1 to 255")
	var r RetryOn
	for item := range strings.SplitSeq(s, ",") {
		switch item {
		case "any":
			r.Any = true
		case "exit":
			r.Exit = append(r.Exit, ExitRange{1, 255})
		case "signal":
			r.Outcomes = append(r.Outcomes, task.Signal)
		case "timeout":
			r.Outcomes = append(r.Outcomes, task.Timeout)
		case "start":
			r.Outcomes = append(r.Outcomes, task.StartFailed)
		case "answer":
			r.Outcomes = append(r.Outcomes, task.BadAnswer)
		default:
			span, found := strings.CutPrefix(item, "exit:")
			from, to, isRange := strings.Cut(span, "-")
			if !isRange {
				to = from
			}
			a, err := parseWhole(from, 1, 255)
			b, err2 := parseWhole(to, a, 255)
			if !found || err != nil || err2 != nil {
				return RetryOn{}, hint
			}
			r.Exit = append(r.Exit, ExitRange{a, b})
		}
	}
	return r, nil
}

// parseReady parses the expression for the line that says that a worker is ready.
func parseReady(s string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(s)
	if bad, ok := errors.AsType[*syntax.Error](err); ok {
		err = errors.New(bad.Code.String()) // without the expression, which may have several lines
	}
	return re, err
}

// parseHalt parses never, or soon or now with fail, success or done and a number
// or a percentage: now,fail=1 or soon,done=10%. It returns a Halt without Tasks.
func parseHalt(s string) (core.Halt, error) {
	hint := errors.New("write never, or such as now,fail=1 or soon,done=10%")
	if s == "never" {
		return core.Halt{}, nil
	}
	oldForms := map[string]string{ // of parallel
		"0": "never", "1": "soon,fail=1", "2": "now,fail=1", "-1": "soon,success=1", "-2": "now,success=1",
	}
	if modern, ok := oldForms[s]; ok {
		return core.Halt{}, errors.New("write " + modern)
	}
	when, why, _ := strings.Cut(s, ",")
	what, count, _ := strings.Cut(why, "=")
	digits, percent := strings.CutSuffix(count, "%")
	most := math.MaxInt
	if percent {
		most = 100
	}
	n, err := parseWhole(digits, 1, most)
	on, ok := map[string]core.On{
		"fail": core.OnFail, "success": core.OnSuccess, "done": core.OnDone,
	}[what]
	h := core.Halt{On: on, N: n, Percent: percent}
	switch when {
	case "soon":
		h.When = core.Soon
	case "now":
		h.When = core.Now
	}
	if h.When == core.Never || !ok || err != nil {
		return core.Halt{}, hint
	}
	return h, nil
}

// parseText refuses the empty string, which is most likely an unset variable of
// the shell.
func parseText(s string) (string, error) {
	if s == "" {
		return "", errors.New("write something there; it is empty")
	}
	return s, nil
}

// parseChoice returns s if it is one of the choices.
func parseChoice(s string, choices []string) (string, error) {
	if !slices.Contains(choices, s) {
		return "", errors.New("write " + oneOf(choices))
	}
	return s, nil
}

// parseProgress parses when to show progress. parallel's --progress takes no value.
func parseProgress(s string) (string, error) {
	when, err := parseChoice(s, whens)
	if err != nil {
		if _, e := proc.Find(s, ""); e == nil {
			err = fmt.Errorf("%w, or --bar %s", err, task.Quote(s))
		}
	}
	return when, err
}

// oneOf lists choices.
func oneOf(choices []string) string {
	last := len(choices) - 1
	if last == 0 {
		return choices[0]
	}
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}
