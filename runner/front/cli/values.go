package cli

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/read/input"
	"crew/sched"
)

// parsers holds the functions that parse the values of options, by the names in the tags of Options. Their
// errors are hints that say what to write instead. A parser with a second parameter gets the field and
// returns its new value. For other parsers, the result is assigned to the field, or appended to a slice.
var parsers = map[string]any{
	"delimiter": input.ParseDelimiter, "colsep": input.ParseColsep, "shard": parseShard, "block": parseBlock, "mark": parseMark,
	"topics": sched.ParseTopics, "cap": addCap, "offers": addOffers, "rate": parseRate, "load": parseLoad, "memfree": parseMemFree,
	"ready": parseReady, "retry-on": parseRetryOn, "halt": parseHalt, "deadline": parseDeadline,
	"queue":    named(`\w[\w-]{0,63}`, "write up to 64 letters, digits, - and _ that are not a number"), // a part of NATS subjects
	"variable": named(`[A-Za-z_]\w*`, "write the name of a variable, such as LANG; its value is taken from crew's environment"),
	"labels":   parseLabels, "name": parseName, "host": parseHost, "output": parseOutput,
	"in": parseIn, "at": parseAt, "limit": parseLimit, "task": parseTask, "bound": parseBound, "setting": parseSetting,
	"version":    func(string) (string, error) { return versionText(), nil },
	"completion": func(shell string) (string, error) { return completionScripts[shell], nil },
}

// parseLimit parses the time limit of a task. It returns -1 for 0, which means no limit; the zero value of the
// field means the limit of the run.
func parseLimit(s string) (task.Seconds, error) {
	d, err := task.ParseDuration(s)
	return task.Seconds(cmp.Or(d, -1)), err
}

// parseOutput parses how much output a hub keeps.
func parseOutput(s string) (int64, error) {
	n, err := task.ParseSize(s)
	if err == nil && n < 1<<20 {
		err = errors.New("one message would fill it: write 1M or more")
	}
	return n, err
}

// parseBound parses a bound on the output of an attempt: SIZE or cut:SIZE.
func parseBound(s string) (b task.Bound, err error) {
	size, cut := strings.CutPrefix(s, "cut:")
	b.Cut = cut
	if b.Bytes, err = task.ParseSize(size); err != nil {
		err = errors.New("write a number of bytes such as 512M or 4G, or cut:1M to keep the first MiB")
	}
	return b, err
}

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

const digits = "0123456789"

// parseName parses the name of a run. It must not look like a process ID.
var parseName = named(`[\w.][\w.-]{0,63}`, "write up to 64 letters, digits and -_. that are not a number")

// named returns a parser of names that match expr and are no number. hint is its error.
func named(expr, hint string) func(string) (string, error) {
	return func(s string) (string, error) {
		if !regexp.MustCompile(`^(?:`+expr+`)$`).MatchString(s) || isNumber(s) {
			return "", errors.New(hint)
		}
		return s, nil
	}
}

// parseSetting parses a variable with the template of its value.
func parseSetting(s string) (string, error) {
	if !isAssignment(s) {
		return "", errors.New("write NAME=VALUE; the name has letters, digits and _")
	}
	return s, nil
}

// parseLabels parses names separated by commas.
func parseLabels(s string) (list []string, err error) {
	for l := range strings.SplitSeq(s, ",") {
		if _, bad := parseName(l); bad != nil {
			err = fmt.Errorf("%w, separated by commas", bad)
		}
		list = append(list, l)
	}
	return list, err
}

// localNow returns the current local time. If this machine does not have the zone that TZ names, which package
// time then takes for UTC, localNow also returns an error.
func localNow() (now time.Time, zone error) {
	now = time.Now()
	tz := os.Getenv("TZ")
	if name := strings.TrimPrefix(tz, ":"); now.Location().String() == "UTC" && !slices.Contains([]string{"", "UTC"}, name) {
		zone = fmt.Errorf("this machine has no time zone %q, the value of TZ: set TZ to a zone like Europe/Berlin, or add the offset, as in 2027-01-31T06:00:00+01:00", tz)
	}
	return now, zone
}

// parseDeadline parses a deadline, which is a duration or a moment.
func parseDeadline(s string, l core.Limit) (_ core.Limit, err error) {
	now, zone := localNow()
	l.Run, l.Until, err = deadlineAfter(s, now, zone)
	return l, err
}

func deadlineAfter(s string, now time.Time, zone error) (after time.Duration, until time.Time, err error) {
	if until, err = parseMoment(s, now, zone); err != errNotMoment {
		return 0, until, err
	}
	if after, err = task.ParseDuration(s); err != nil || after == 0 {
		err = errors.New("write a time such as 90m, 06:00, '2027-01-31 06:00' or 2027-01-31T06:00:00Z")
	}
	return after, until, err
}

// parseMoment parses a local time of day, which stands for its next occurrence, a local date and time, or a
// moment in the form of RFC 3339. zone is the error of localNow; it is returned for local times.
func parseMoment(s string, now time.Time, zone error) (time.Time, error) {
	for form := range strings.SplitSeq("15:04|15:04:05|2006-01-02 15:04|2006-01-02 15:04:05|2006-01-02T15:04|2006-01-02T15:04:05|"+
		time.RFC3339+"|2006-01-02 15:04:05Z07:00", "|") {
		t, err := time.Parse(form, s)
		switch {
		case err != nil:
		case strings.Contains(form, "Z"):
			return t, nil
		case len(form) > len(time.TimeOnly):
			return localTime(t, now.Location()), zone
		default:
			next := now
			for year, month, day := now.Date(); !next.After(now); day++ {
				next = localTime(t.AddDate(year, int(month)-1, day-1), now.Location())
			}
			return next, zone
		}
	}
	return time.Time{}, errNotMoment
}

var errNotMoment = errors.New("no moment")

// localTime returns the moment at which a clock in a location shows the same time as a clock in UTC at t. If
// clocks are set back, there are two such moments, and if they are set forward, there may be none. localTime
// then returns the later possible moment.
func localTime(t time.Time, in *time.Location) time.Time {
	at := func(day time.Duration) time.Time {
		_, offset := t.Add(day).In(in).Zone()
		return t.Add(-time.Duration(offset) * time.Second).In(in)
	}
	if m := at(24 * time.Hour); m.Format(time.DateTime) == t.Format(time.DateTime) {
		return m
	}
	return at(-24 * time.Hour)
}

// parseAt parses a moment in the future.
func parseAt(s string) (time.Time, error) {
	now, zone := localNow()
	return momentAfter(s, now, zone)
}

func momentAfter(s string, now time.Time, zone error) (time.Time, error) {
	t, err := parseMoment(s, now, zone)
	switch {
	case err == errNotMoment:
		hint := `write 22:00, '2027-01-31 06:00' or 2027-01-31T06:00:00Z; others as "$(date -Is -d 'next friday')"`
		if d, err := task.ParseDuration(s); err == nil && d > 0 && !isNumber(s) {
			hint = "write --in " + s
		}
		return t, errors.New(hint)
	case err == nil && !t.After(now):
		return t, errors.New("that is in the past: it is " + now.Format(time.DateTime+" -0700"))
	}
	return t, err
}

// parseIn parses a duration and returns the moment after it.
func parseIn(s string) (time.Time, error) {
	d, err := task.ParseDuration(s)
	return time.Now().Add(d).Round(0), err
}

// RetryOn selects the attempts to retry: all that match one of its rules.
type RetryOn []RetryRule

// RetryRule matches attempts with an outcome and an exit status from From to To, inclusive. An Outcome of 0
// matches every failure.
type RetryRule struct {
	Outcome  task.Outcome
	From, To int
}

// Has reports whether an attempt with result r is retried.
func (on RetryOn) Has(r *task.Result) bool {
	return slices.ContainsFunc(on, func(x RetryRule) bool {
		return x.Outcome == 0 || x.Outcome == r.Outcome && x.From <= r.Code && r.Code <= x.To
	})
}

// Names reports whether one of the rules is for this outcome only.
func (on RetryOn) Names(o task.Outcome) bool {
	return slices.ContainsFunc(on, func(x RetryRule) bool { return x.Outcome == o })
}

// retryOutcomes maps the words of --retry-on to outcomes.
var retryOutcomes = map[string]task.Outcome{
	"any": 0, "exit": task.Exit, "signal": task.Signal, "timeout": task.Timeout, "start": task.StartFailed,
	"answer": task.BadAnswer, "output": task.NoOutput, "memory": task.Memory, "too-much": task.TooMuch,
}

const anyStatus = 255 // the largest exit status

// parseRetryOn parses a list of exit, exit:N, exit:N-M, signal, timeout, start,
// answer, output, memory, too-much and any, separated by commas.
func parseRetryOn(s string) (list RetryOn, err error) {
	for item := range strings.SplitSeq(s, ",") {
		name, span, spans := strings.Cut(item, ":")
		outcome, known := retryOutcomes[name]
		x := RetryRule{outcome, 0, anyStatus}
		if spans {
			from, to, isRange := strings.Cut(span, "-")
			if !isRange {
				to = from
			}
			var err2 error
			x.From, err = parseWhole(from, 1, anyStatus)
			x.To, err2 = parseWhole(to, x.From, anyStatus)
			known = known && outcome == task.Exit && cmp.Or(err, err2) == nil
		}
		if !known {
			return nil, errors.New("write a list of exit, exit:N, exit:N-M, signal, timeout, start, answer, output, memory, too-much, any; N is from 1 to 255")
		}
		list = append(list, x)
	}
	return list, nil
}

// parseReady parses the expression that matches the line of a persistent worker that is ready.
func parseReady(s string) (string, error) {
	_, err := input.ParseRegexp(s)
	return s, err
}

// parseHalt parses never, or soon, now or pause with fail, success or done and a number
// or a percentage: now,fail=1 or soon,done=10%.
func parseHalt(s string) (h core.Halt, err error) {
	if s == "never" {
		return h, nil
	}
	most := math.MaxInt
	if strings.HasSuffix(s, "%") {
		most = 100
	}
	if part := regexp.MustCompile(`^(soon|now|pause),(fail|success|done)=(\d+)%?$`).FindStringSubmatch(s); part != nil {
		h = core.Halt{When: core.When(part[1]), On: core.On(part[2]), Percent: most == 100}
		h.N, _ = parseWhole(part[3], 1, most)
	}
	if h.N == 0 {
		err = errors.New("write never, or for example now,fail=1, soon,done=10% or pause,fail=3")
	}
	return h, err
}

// checkText refuses the empty string, which is most likely an unset variable of the shell.
func checkText(s string) error {
	if s == "" {
		return errors.New("give a value; it is empty")
	}
	return nil
}

// checkChoice refuses a value that is not one of the choices.
func checkChoice(s, choices string) error {
	if list := strings.Fields(choices); !slices.Contains(list, s) {
		return errors.New("write " + oneOf(list))
	}
	return nil
}

// parseBlock parses a size or, if it is negative, a number of blocks for each worker.
func parseBlock(s string) (int64, error) {
	if blocks, negative := strings.CutPrefix(s, "-"); negative {
		if n, err := parseWhole(blocks, 1, math.MaxInt32); err == nil {
			return -int64(n), nil
		}
	} else if n, err := task.ParseSize(s); err == nil {
		return n, nil
	}
	return 0, errors.New("write a number of bytes such as 64K, 1M or 2G, or -N for N blocks of a file for each worker")
}

// parseMark parses the start or the end of a record.
func parseMark(s string) (string, error) {
	if s == "" {
		return "", nil
	}
	return input.ParseDelimiter(s)
}

// parseShard parses K/N or hash:K/N.
func parseShard(s string) (Shard, error) {
	s, hash := strings.CutPrefix(s, "hash:")
	k, n, _ := strings.Cut(s, "/")
	of, err := parseWhole(n, 1, math.MaxInt32)
	number, err2 := parseWhole(k, 1, max(1, of))
	if err != nil || err2 != nil {
		return Shard{}, errors.New("write K/N or hash:K/N, such as 2/4 for the second of four shares; K is from 1 to N")
	}
	return Shard{number, of, hash}, nil
}

// isNumber reports whether s consists of digits.
func isNumber(s string) bool { return s != "" && strings.Trim(s, digits) == "" }

// oneOf returns the choices as a list for a sentence: a, b or c.
func oneOf(choices []string) string {
	last := len(choices) - 1
	if last == 0 {
		return choices[0]
	}
	return strings.Join(choices[:last], ", ") + " or " + choices[last]
}

// parseHost parses a name or an address of a hub.
func parseHost(s string) (string, error) {
	name := strings.Trim(s, "[]")
	a, err := netip.ParseAddr(name)
	if a.Zone() != "" || a.IsUnspecified() || err != nil && !regexp.MustCompile(`^[\pL\pN._-]+$`).MatchString(s) {
		return "", errors.New("write a name or an address, without a port, by which clients on other machines find it")
	}
	return name, nil
}
