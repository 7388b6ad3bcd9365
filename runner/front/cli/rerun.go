package cli

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"crew/runner/decide/task"
	"crew/runner/read/expand"
)

// Rerun writes command lines that run again tasks that a run did not complete.
type Rerun struct {
	*Options
	CommandLines bool // the records are the command lines of tasks
	Unread       bool // the records are the unread rest of the input, on standard input
}

// CommandsSuffice reports whether the command lines of failed tasks are enough to run them again, because
// nothing else depends on their records.
func (r Rerun) CommandsSuffice() bool {
	fromEnv := func(u use) bool { return u.env }
	return !r.Input.JSON && !r.Any("key cost priority weight needs tag tag-string json state makes stdout-to stdin setenv") && r.Pool.Dirs == "" && !slices.ContainsFunc(r.uses, fromEnv)
}

// WhyChanged returns why a task would change if a list of records ran it again, or "".
func (r Rerun) WhyChanged(t *task.Task) string {
	if t.Block != nil {
		return "a list holds no blocks"
	}
	words := r.Words()
	if len(words) == 0 {
		words = t.Argv // the record is the command, so what it contains counts
	}
	number := r.NumberPlaceholder(words)
	if r.hasPlaceholder(slices.Concat(r.Makes.Outs, r.Makes.Reads, r.Pool.Env, []string{r.Makes.Stdout, r.Pool.Dirs}), "{#}") {
		number = "{#}"
	}
	if number != "" {
		return number + " would be another number"
	}
	if r.State.Dir != "" && r.Input.Shard.ByPosition() {
		return "a list has other shares"
	}
	for _, u := range r.uses {
		if name := u.opt.name; r.State.Dir != "" && (name == "colsep" || name == "csv") && r.omits(name) {
			return "without " + u.opt.typed() + " they belong to another command"
		}
	}
	return ""
}

// NumberPlaceholder returns the variable or placeholder that stands for the number of a task in words, or "".
func (r Rerun) NumberPlaceholder(words []string) string {
	for _, name := range [...]string{"CREW_SEQ", "PARALLEL_SEQ"} {
		if anyContains(words, name) {
			return "$" + name
		}
	}
	if len(r.Words()) > 0 && r.hasPlaceholder(words, "{#}") {
		return "{#}"
	}
	return ""
}

// anyContains reports whether one of the words contains text.
func anyContains(words []string, text string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, text) })
}

// TakesText reports whether a task gets the text of its records, not their columns.
func (r Rerun) TakesText() bool {
	p := r.Protocol()
	return r.Command.Stdin || p == task.LineProtocol || p == task.NULProtocol
}

// omits reports whether the new command line does without an option: options that read and split records,
// options about earlier runs, and options for reports. Tasks that get the text of their records keep the
// options for delimiters; records of a single source are given to them unsplit.
func (r Rerun) omits(name string) bool {
	switch {
	case hasWord("arg-file replay retry-failed rerun-changed state-reset jitter report trace", name):
		return true
	case name == "deadline": // a date that has passed would end the new run at once
		return strings.Contains(r.given(name).value, "-") && time.Now().After(r.Failure.Limit.Until)
	case r.Unread:
		return false
	case hasWord("null delimiter", name):
		return !r.TakesText()
	case hasWord("colsep csv", name):
		return !r.TakesText() || r.Input.Sources() > 1
	case hasWord("shard times", name): // with --state, they are part of the journal's command
		return r.State.Dir == "" && (name == "shard" || r.Sched.Order == "")
	}
	return hasWord("eof skip no-run-if-empty", name) || name == "input" && !r.Input.JSON || r.CommandLines && hasWord("header max-args max-chars spread replace", name)
}

// Line returns a command line, quoted for a shell, that runs other records the way this run does. options and
// values supply the records and are inserted unchanged.
func (r Rerun) Line(options, values string) string {
	var words []string
	// CREW_OPTS applies to the new command line as well, so clear it if it holds an
	// option that is not in effect there, or has another value.
	clearEnv := slices.ContainsFunc(r.uses, func(u use) bool {
		return u.env && (r.omits(u.opt.name) || r.withUnusedFile(u) != u)
	})
	if clearEnv {
		words = append(words, "CREW_OPTS=")
	}
	words = append(words, "crew")
	for _, u := range r.uses {
		if (!u.env || clearEnv) && !r.omits(u.opt.name) {
			words = append(words, r.withUnusedFile(u).typed())
		}
	}
	if r.State.Dir != "" {
		words = append(words, "--retry-failed")
	}
	words = append(words, options)
	if command := r.Command.Words; len(command) > 0 && !r.CommandLines {
		if strings.HasPrefix(command[0], "-") || isCommand(command[0]) || r.Command.operator() != "" {
			words = append(words, "--")
		}
		for _, w := range command {
			words = append(words, quoteWord(w))
		}
	}
	words = append(words, values)
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// typed returns the option as a person types it: -j4, and other values as a separate word.
func (u use) typed() string {
	words := u.appendTyped(nil)
	if number := u.value != "" && '0' <= u.value[0] && u.value[0] <= '9'; number && len(words[0]) == len("-j") {
		return strings.Join(words, "")
	}
	return strings.Join(words, " ")
}

// braces matches placeholders that a shell leaves alone.
var braces = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{[\w./#%-]*\}`) })

// quoteWord is like task.Quote, but does not quote placeholders.
func quoteWord(w string) string {
	if rest := braces().ReplaceAllString(w, "x"); task.Quote(rest) == rest && !strings.Contains(w, "..") {
		return w
	}
	return task.Quote(w)
}

// commandOptions are the options that determine the task of a record. If they differ, a journal belongs to
// another command.
const commandOptions = "colsep csv header input max-args max-chars shard replace stdin workdir shell " +
	"worker worker-protocol pipe block records recend recstart"

// Identity returns the command line that identifies the command of a journal.
func (o *Options) Identity() string {
	words := []string{"crew"}
	if o.Do == DoServe {
		words = append(words, DoServe)
	}
	alone := o.Makes.Any() && o.Do != DoServe // the files that tasks make identify them, not the command
	for _, u := range o.uses {
		if n := u.opt.name; n == "makes" || n == "stdout-to" || alone && n == "workdir" || !alone && n == "setenv" {
			words = u.appendTyped(words)
		}
	}
	if alone {
		return strings.Join(words, " ")
	}
	for name := range strings.FieldsSeq(commandOptions) {
		if u := o.given(name); u != nil {
			words = u.forList().appendTyped(words)
		}
		if name == "shard" && o.Input.Shard.Of > 0 {
			for _, path := range o.Input.Times { // the times determine the share
				words = append(words, "--times", task.Quote(path))
			}
		}
	}
	command := o.Command.Words
	appends := o.Command.Shell == "" && !o.Command.Stdin && !o.Command.NoArgs && !o.Pipe.On
	if n := len(command) - 1; appends && n > 0 && command[n] == o.Command.Replace &&
		!anyContains(command[:n], "{") && !anyContains(command[:n], o.Command.Replace) {
		command = command[:n] // the record is appended at the end anyway
	}
	for _, w := range command {
		words = append(words, task.Quote(w))
	}
	return strings.Join(words, " ")
}

// forList returns the option for a list of records, whose header is one record.
func (u use) forList() use {
	if u.opt.name == "header" {
		u.value = u.opt.implied
	}
	return u
}

// appendTyped appends the option in its shortest form, quoted for a shell.
func (u use) appendTyped(words []string) []string {
	if u.opt.alone {
		return append(words, u.word())
	}
	words = append(words, u.opt.typed())
	if u.opt.value != "" {
		words = append(words, task.Quote(u.value))
	}
	return words
}

// withUnusedFile changes an option for other records. It renames the output file of an option, so that the new run does not overwrite this run's
// joblog, report or results. With --state, the new run completes them, so their names stay.
func (r Rerun) withUnusedFile(u use) use {
	if !r.Unread {
		u = u.forList()
	}
	if r.State.Dir != "" {
		return u
	}
	switch u.opt.name {
	case "joblog", "junit":
		if st, err := os.Stat(u.value); err == nil && st.Mode().IsRegular() && !strings.HasPrefix(u.value, "/dev/") {
			u.value = r.unusedPath(u.value)
		}
	case "results":
		path, err := expand.NewPath(u.value, expand.Config{Replace: r.Command.Replace, Columns: expand.Columns{Fields: true}})
		if err != nil {
			break
		}
		dir, constant := path.Dir()
		rest := ""
		if !constant {
			rest = "/" + u.value[len(dir):]
		}
		u.value = r.unusedPath(filepath.Clean(cmp.Or(dir, "results"))) + rest
	}
	return u
}

// unusedPath returns the first path of log, log.2, log.3, … without a file or, if r.Unread is set, the second
// one: the first is for the command line that reruns failures.
func (r Rerun) unusedPath(path string) string {
	stem := regexp.MustCompile(`\.\d+$`).ReplaceAllString(path, "")
	for n, rest := 2, r.Unread; ; n++ {
		if _, err := os.Lstat(path); err != nil {
			if !rest {
				return path
			}
			rest = false
		}
		path = stem + "." + strconv.Itoa(n)
	}
}

// hasPlaceholder reports whether words contain a placeholder that -I has not redefined.
func (o *Options) hasPlaceholder(words []string, placeholder string) bool {
	return o.Command.Replace != placeholder && anyContains(words, placeholder)
}
