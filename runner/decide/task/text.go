package task

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"math"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"golang.org/x/sys/unix"
)

// Quote returns s as one word of a POSIX shell: unchanged if it needs no quoting,
// otherwise in single quotes. s may contain any byte but NUL.
func Quote(s string) string {
	special := func(r rune) bool { // much faster than strings.Trim with all plain characters
		return (r < 'a' || r > 'z') && (r < '@' || r > 'Z') && (r < '+' || r > ':') && r != '%' && r != '=' && r != '_'
	}
	if s != "" && !strings.ContainsFunc(s, special) && s[0] != '=' {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// JoblogMark returns how many more blanks than GNU parallel a joblog has before a run time; parallel
// pads to ten columns. crew marks the rows of each run by this number; 0 means that parallel wrote the
// row.
func JoblogMark(runtime string) int {
	return max(0, len(runtime)-max(10, len(strings.TrimLeft(runtime, " "))))
}

// CommandLine returns argv, a form of t.Argv, as a person would type it: the script if crew put it
// into a shell, otherwise the quoted words. The record of a persistent worker's task follows as a
// here-string, and then a redirection to the file that the task makes from its standard output.
func (t *Task) CommandLine(argv []string) string {
	return t.redirectable(argv) + t.hereString(math.MaxInt, Quote) + t.redirection(Quote)
}

// ShortCommandLine is like CommandLine, shortened to n bytes and an ellipsis. It shortens a persistent
// worker's command, which is the same for all tasks, rather than its record, and any command rather
// than the file that it makes.
func (t *Task) ShortCommandLine(argv []string, n int) string {
	words, rest := t.redirectable(argv), t.hereString(n, Quote)+t.redirection(Quote)
	if rest != "" {
		words = Shorten(words, max(n-len(rest)-len("…"), n/4))
	}
	return Shorten(words+rest, n)
}

// hereString returns " <<< " and at most n bytes of the record of a persistent worker's task, or "".
func (t *Task) hereString(n int, quote func(string) string) string {
	record := ""
	switch t.Protocol {
	case LineProtocol, NULProtocol:
		record = string(t.Stdin[:min(len(t.Stdin), n)])
	case JSONProtocol:
		if record = t.Object; record == "" && len(t.Records) > 0 {
			record = strings.Join(t.Records[0], " ")
		}
	default:
		return ""
	}
	return " <<< " + quote(record[:min(len(record), n)])
}

// redirection returns " > " and the file that the task's standard output makes, or "".
func (t *Task) redirection(quote func(string) string) string {
	if t.Makes == nil || !t.Makes.Stdout || t.Err != nil && len(t.Argv) == 0 {
		return ""
	}
	return " > " + quote(t.Makes.Targets[len(t.Makes.Targets)-1].Path)
}

// redirectable returns Words in a form that a redirection of the whole output can follow: a script
// that may be more than a command or a pipeline, or has a redirection, is passed to the shell as a
// word.
func (t *Task) redirectable(argv []string) string {
	script := t.Words(argv)
	if t.Shell && t.redirection(Quote) != "" &&
		(strings.ContainsAny(script, ";&>#()\n") || strings.Contains(script, "<<") ||
			strings.Contains(script, "||") || strings.HasSuffix(script, `\`)) {
		return words(argv, Quote)
	}
	return script
}

// Words is like CommandLine without a record or a redirection.
func (t *Task) Words(argv []string) string {
	if t.Shell && len(argv) > 0 {
		return argv[len(argv)-1]
	}
	return words(argv, Quote)
}

// words joins the words of argv, quoted by quote.
func words(argv []string, quote func(string) string) string {
	words := make([]string, len(argv))
	for i, w := range argv {
		if words[i] = quote(w); i == 0 && words[i] == w && strings.Contains(w, "=") {
			words[i] = "'" + w + "'" // not an assignment
		}
	}
	return strings.Join(words, " ")
}

// Label returns a text that identifies the task to people, as a part of a line, shortened to max bytes
// and an ellipsis: its records, the position of its block or, with -n0, its number. For a task with a
// JSON object, or without records, it is the command.
func (t *Task) Label(max int) string {
	label := ""
	switch {
	case t.Block != nil:
		label = t.Block.Place()
	case t.NoArgs:
		label = strconv.FormatUint(t.ID, 10)
	case t.Object != "" && t.Protocol == NoProtocol && len(t.Argv) > 0:
	default:
		label = strings.TrimSpace(strings.Join(slices.Concat(t.Records...), " "))
	}
	if label == "" {
		label = cmp.Or(t.CommandLine(t.Argv), strconv.FormatUint(t.ID, 10))
	}
	label = Printable(strings.ReplaceAll(Shorten(label, max), "\t", " "))
	return Shorten(label, max)
}

// labelBytes is how much of a command people take in at a glance, and the length of a label next to
// it.
const labelBytes = 60

// LabelBeside returns the task's label if command, as it is shown, does not identify the task: no word
// of its record is in the beginning of the command. Otherwise it returns "".
func (t *Task) LabelBeside(command string) string {
	switch {
	case t.NoArgs, t.Block != nil, t.Stdin != nil && t.Protocol == NoProtocol:
		return t.Label(labelBytes)
	case t.Object != "" && t.Protocol == NoProtocol, len(t.Records) == 0:
		return ""
	}
	begin := command[:min(len(command), labelBytes)]
	for _, record := range t.Records {
		for _, c := range record {
			stem := strings.TrimSuffix(path.Base(c), path.Ext(c))
			long := len(c) > labelBytes/2 && strings.Contains(begin, c[:labelBytes/2])
			if c != "" && (long || strings.HasPrefix(c, begin) || hasWord(begin, c) || hasWord(begin, Quote(c)) || hasWord(begin, stem)) {
				return ""
			}
		}
	}
	label := t.Label(labelBytes)
	if strings.HasPrefix(command, label) || label == strconv.FormatUint(t.ID, 10) {
		return ""
	}
	return label
}

// LabelApart returns the task's label if its command is a script that other tasks share, so that only
// the label identifies the task. Otherwise it returns "".
func (t *Task) LabelApart() string {
	if !t.Shell || t.NoArgs || t.Object != "" || len(t.Records) == 0 || t.Records[0][0] == t.Words(t.Argv) {
		return ""
	}
	return t.Label(labelBytes)
}

// hasWord reports whether w is in s with no letter or digit next to it.
func hasWord(s, w string) bool {
	if w == "" || !strings.Contains(s, w) { // the pattern takes long
		return false
	}
	found, _ := regexp.MatchString(`(^|[^\pL\pN])`+regexp.QuoteMeta(w)+`($|[^\pL\pN])`, s)
	return found
}

// Shorten cuts s after at most n bytes, between characters, and adds an ellipsis if it has cut
// anything.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for back := 0; back < utf8.UTFMax-1 && n > 0 && !utf8.RuneStart(s[n]); back++ {
		n--
	}
	return s[:n] + "…"
}

// Cut shortens s to a number of terminal columns.
func Cut(s string, columns int) string {
	fits := 0 // how many bytes leave room for the ellipsis
	for at, width, state := 0, 0, -1; at < len(s); {
		c, _, w, next := uniseg.FirstGraphemeClusterInString(s[at:], state)
		at, width, state = at+len(c), width+w, next
		switch {
		case width > columns:
			return s[:fits] + "…"
		case width < columns:
			fits = at
		}
	}
	return s
}

// Printable returns s with escapes for invalid bytes and for all characters that could break the line
// or control the terminal. Tabs stay.
func Printable(s string) string {
	if strings.IndexFunc(s, unprintable) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		c := s[:n]
		if unprintable(r) || !utf8.ValidString(c) {
			c = strconv.Quote(c)
			c = c[1 : len(c)-1]
		}
		b.WriteString(c)
		s = s[n:]
	}
	return b.String()
}

func unprintable(r rune) bool { return r != '\t' && !unicode.IsPrint(r) }

// Span formats a duration, rounded for people.
func Span(d time.Duration) string {
	unit := time.Second
	switch {
	case d < time.Millisecond:
		unit = 100 * time.Microsecond
	case d < time.Second:
		unit = time.Millisecond
	case d < time.Minute:
		unit = 100 * time.Millisecond
	}
	return d.Round(unit).String()
}

// Brief formats a duration of whole seconds in its two largest units.
func Brief(d time.Duration) string {
	switch hours := d / time.Hour; {
	case hours < 1:
		return d.Truncate(time.Second).String()
	case hours < 24:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	default:
		return fmt.Sprintf("%dd%dh", hours/24, hours%24)
	}
}

// Moment formats a time for people, in the local time zone.
func Moment(t time.Time) string { return t.Local().Format(time.DateTime) }

// Speed formats a rate per second or, if it is low, per minute, hour or day.
func Speed(perSecond float64) string {
	switch {
	case perSecond >= 10:
		return fmt.Sprintf("%.0f/s", perSecond)
	case perSecond >= 0.1:
		return fmt.Sprintf("%.1f/s", perSecond)
	case perSecond >= 0.1/60:
		return fmt.Sprintf("%.1f/min", perSecond*60)
	case perSecond >= 0.1/3600:
		return fmt.Sprintf("%.1f/h", perSecond*3600)
	}
	return fmt.Sprintf("%.1f/d", perSecond*86400)
}

// ShortenUnique is like Shorten, but different texts stay different: a checksum ends a text that was
// cut.
func ShortenUnique(s string, size int) string {
	if len(s) <= size {
		return s
	}
	return fmt.Sprintf("%s %08x", Shorten(s, size-9), crc32.ChecksumIEEE([]byte(s)))
}

// Count formats a number of things: "1 task", "2 tasks".
func Count(n int64, thing string) string {
	s := strconv.FormatInt(n, 10) + " " + thing
	if n != 1 {
		s += "s"
	}
	return s
}

// maxReason is the most bytes of an error in a verdict.
const maxReason = 200

// Verdict describes how the attempt ended, as in "exit 3 after 1.2s". Without Start it names no time.
func (r *Result) Verdict() string {
	after := ""
	if !r.Start.IsZero() {
		after = " after " + Span(r.Duration())
	}
	if r.Host != "" && r.Outcome != Lost {
		after += " on " + r.Host
	}
	if r.Killed() {
		after += r.reason(", ")
	}
	switch r.Outcome {
	case Exit:
		return "exit " + strconv.Itoa(r.Code) + after
	case Signal:
		return "killed by " + cmp.Or(unix.SignalName(syscall.Signal(r.Signal)), "signal "+strconv.Itoa(r.Signal)) + after
	case BadAnswer:
		return "bad answer" + after + r.reason(", ")
	case NoOutput:
		return "made no output" + after + r.reason(": ")
	case Skipped:
		return "skipped (up to date)"
	case Timeout, TooMuch:
		if r.Err != nil {
			return r.reason("") + ", ended" + after
		}
		return map[Outcome]string{Timeout: "timed out", TooMuch: "wrote too much"}[r.Outcome] + after
	case StartFailed:
		did := "not started"
		if r.PID != 0 {
			did = "stopped"
		}
		return did + r.reason(": ")
	case Lost:
		return "lost with " + cmp.Or(r.Host, "its worker") + after
	case Memory:
		return "ended for lack of memory" + after
	case NotRun:
		if r.Err != nil {
			return "not run" + r.reason(": ")
		}
	}
	return r.Outcome.String() + after
}

// reason returns before and the text of r.Err, or "" without an error.
func (r *Result) reason(before string) string {
	if r.Err == nil {
		return ""
	}
	return before + Printable(Shorten(r.Err.Error(), maxReason))
}

// Verdict describes how the attempt ended, like Result.Verdict.
func (f *Facts) Verdict() string { return f.Result(nil).Verdict() }

// Place names the worker and, if it is on another machine, the host.
func (f *Facts) Place() string {
	if f.Host == "" {
		return fmt.Sprintf("worker %d", f.Worker)
	}
	return fmt.Sprintf("worker %d (%s)", f.Worker, f.Host)
}

// AttemptSuffix returns ", attempt N", or "" for the first attempt.
func AttemptSuffix(n int) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf(", attempt %d", n)
}

// FlakyVerdict is like Verdict for a flaky task: how it last failed, and which attempt passed.
func (r *Result) FlakyVerdict() string {
	failed := r.Failures()
	return fmt.Sprintf("%s, passed in attempt %d", failed[len(failed)-1].Verdict(), r.Attempt)
}

// WithoutPath returns err without its path, if it has one, for callers that name the path themselves.
func WithoutPath(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
