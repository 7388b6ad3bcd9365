package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"crew/runner/expand"
	"crew/runner/input"
	"crew/runner/sink"
	"crew/runner/task"
)

// source is where tasks come from: the open input and what makes tasks of it.
type source struct {
	opts     *Options
	reader   *input.Reader
	template *expand.Template // nil with JSON objects that bring their own commands
	tasks    *input.Tasks
}

// openSource opens the input and compiles the templates.
func openSource(o *Options, stdin *os.File) (*source, error) {
	r, err := openReader(o, stdin)
	if err != nil {
		return nil, err
	}
	s := &source{opts: o, reader: r}
	if err := s.compile(r.Names()); err != nil {
		_ = r.Close()
		return nil, err
	}
	return s, nil
}

func readsStdin(in Input) bool {
	isStdin := func(g Group) bool { return g.Files && slices.Contains(g.Words, "-") }
	return len(in.Files) == 0 && len(in.Groups) == 0 || slices.Contains(in.Files, "-") || slices.ContainsFunc(in.Groups, isStdin)
}

func openReader(o *Options, stdin io.Reader) (*input.Reader, error) {
	cfg := input.Config{
		Stdin: stdin, Files: o.Input.Files, Format: inputFormat(o.Input), SkipEmpty: o.Input.SkipEmpty,
		Comments: len(o.Command.Words) == 0 && !o.Input.JSON, MaxRecord: maxRecord(o),
	}
	for _, g := range o.Input.Groups {
		if !g.Files {
			cfg.Groups = append(cfg.Groups, input.Group{Values: append([]string{}, g.Words...), Linked: g.Linked})
			continue
		}
		for _, name := range g.Words { // each file is a source of its own, as with parallel
			cfg.Groups = append(cfg.Groups, input.Group{File: name, Linked: g.Linked})
		}
	}
	if o.Input.EOF != "" {
		cfg.EOF = &o.Input.EOF
	}
	if err := cfg.Validate(); err != nil {
		return nil, &usageError{"bad input", err.Error()}
	}
	return input.Open(cfg)
}

// maxRecord is the longest record that a task can be made of.
func maxRecord(o *Options) int {
	if o.Command.Stdin {
		return 16 << 20
	}
	return 2 << 20
}

// compile makes the templates, now that the columns have their names, and the
// tasks.
func (s *source) compile(names []string) error {
	c := s.opts.Command
	cfg := expand.Config{
		Words: c.Words, Shell: c.Shell, Replace: c.Replace, Names: names, Fields: s.opts.Input.JSON,
		Append: !c.Stdin && !c.NoArgs, Empty: c.NoArgs, Batch: c.batches(),
	}
	if len(c.Words) > 0 || !s.opts.Input.JSON {
		t, err := expand.New(cfg)
		if err != nil {
			return &usageError{msg: err.Error()}
		}
		s.template = t
		if least := leastChars(t); c.MaxChars > 0 && c.MaxChars < least {
			return &usageError{
				s.opts.given("max-chars").String() + " leaves no room for a record",
				fmt.Sprintf("with the shortest the command is %d bytes, the limit is %d", least, c.MaxChars),
			}
		}
	}
	text := func(template string) *expand.Text {
		if template == "" {
			return nil
		}
		return expand.NewText(template, cfg)
	}
	tag := s.opts.Output.TagString
	if s.opts.Output.Tag {
		tag = c.Replace
	}
	key, cost := text(s.opts.Sched.Key), text(s.opts.Sched.Cost)
	for _, t := range []struct {
		name string
		text *expand.Text
	}{{"key", key}, {"cost", cost}} {
		if t.text != nil && t.text.UsesWorker() {
			return &usageError{s.opts.given(t.name).String() + " cannot hold {%}", "the worker is chosen only after the " + t.name + " is known"}
		}
	}
	tc := input.TasksConfig{
		Template: s.template, Command: cfg, Key: key, Cost: cost, Tag: text(tag),
		Limits: input.Limits{Records: c.MaxArgs, Chars: c.MaxChars, ArgMax: argMax(os.Environ())},
		Stdin:  c.Stdin,
	}
	if err := tc.Validate(); err != nil {
		return &usageError{"bad limits", err.Error()}
	}
	s.tasks = input.NewTasks(s.reader, tc)
	return nil
}

// leastChars is how many bytes a command with one record has at least, as -s
// counts them. In a shell that need not be the empty record: it is quoted.
func leastChars(t *expand.Template) int {
	least := math.MaxInt
	for _, record := range []string{"", "x"} {
		argv, _ := t.Argv(expand.Values{Records: [][]string{{record}}, Seq: 1, Worker: 1})
		n := 0
		for _, w := range argv {
			n += len(w) + 1
		}
		least = min(least, n)
	}
	return least
}

// command is the program that all tasks run, if it is one.
func (s *source) command() (string, bool) {
	if s.template == nil || s.opts.Input.JSON {
		return "", false
	}
	return s.template.Command()
}

// sources is how many sources are linked or multiplied.
func (in Input) sources() int {
	n := min(1, len(in.Files))
	for _, g := range in.Groups {
		if n++; g.Files {
			n += len(g.Words) - 1 // each file is a source of its own
		}
	}
	return n
}

// cuts says whether records are cut into columns.
func (in Input) cuts() bool { return in.Colsep != nil || in.CSV }

// rerun says how the line that runs failed tasks again is spelt.
func (s *source) rerun() sink.RerunConfig {
	in := s.opts.Input
	cfg := sink.RerunConfig{
		Columns: in.sources() > 1 || in.cuts() && !s.opts.Command.Stdin,
		JSON:    in.JSON,
		Line:    s.opts.again,
		Unlike:  s.opts.unlike,
		State:   s.opts.State.Dir != "",
	}
	c := s.opts.Command
	columns := in.sources() > 1 || in.cuts() || in.Header
	places := c.MaxChars > 0 && !columns && s.template.Counts() // which records come together was up to all before them
	number := c.numberIn(c.Words...)
	switch {
	case (number == "{#}" || number == "" && places) && s.opts.wholeAgain():
		return sink.RerunConfig{Whole: true, Line: s.opts.againWhole}
	case places:
		cfg.Batch = math.MaxInt
	case c.MaxChars == 0: // else a task takes what it has room for
		cfg.Batch = c.MaxArgs
	}
	if c.Stdin {
		cfg.Stdin = s.tasks.Separator()
	}
	if in.Header {
		cfg.Header = s.reader.Names
	}
	return cfg
}

// wholeAgain says whether failed tasks can be run again as command lines: where
// nothing but the commands goes by their records.
func (o *Options) wholeAgain() bool {
	byRecord := o.Sched.Key + o.Sched.Cost + o.Output.TagString + o.State.Dir
	return !o.Input.JSON && !o.Command.Stdin && !o.Output.Tag && !o.Output.JSON && byRecord == "" && !slices.ContainsFunc(o.uses, func(u use) bool { return u.env })
}

// unlike says why the task would be another one in a line of failed tasks, or
// nothing.
func (o *Options) unlike(t *task.Task) string {
	if number := o.numberOf(t); number != "" {
		return number + " would be another number"
	}
	for _, name := range [...]string{"colsep", "csv"} {
		if o.State.Dir != "" && o.has(name) && o.cuts(name) {
			return "without " + o.given(name).opt.typed() + " they are of another command"
		}
	}
	return ""
}

// numberOf is what the task's command has of the task's number, or nothing. A
// value is no part of that, unless it is the command.
func (o *Options) numberOf(t *task.Task) string {
	if o.Input.JSON {
		var object map[string]json.RawMessage
		_ = json.Unmarshal([]byte(t.Object), &object) // input would have told
		if own := string(object["command"]); own != "" && own != "null" {
			return o.Command.numberIn(own)
		}
	}
	if len(o.Command.Words) == 0 {
		return variableIn(t.Argv...)
	}
	return o.Command.numberIn(o.Command.Words...)
}

// numberIn is what the words of a template have of the task's number, or
// nothing.
func (c Command) numberIn(words ...string) string {
	holds := func(w string) bool { return strings.Contains(w, "{#}") }
	if v := variableIn(words...); v != "" || c.Replace == "{#}" || !slices.ContainsFunc(words, holds) {
		return v
	}
	return "{#}"
}

// variableIn is the variable with the task's number that words name, or nothing.
func variableIn(words ...string) string {
	for _, name := range [...]string{"CREW_SEQ", "PARALLEL_SEQ"} {
		if slices.ContainsFunc(words, func(w string) bool { return strings.Contains(w, name) }) {
			return "$" + name
		}
	}
	return ""
}
