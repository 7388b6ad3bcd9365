package wiring

import (
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/mattn/go-isatty"

	"crew/runner/decide/task"
	"crew/runner/front/cli"
	"crew/runner/read/input"
	"crew/runner/show/sink"
)

// maxMore is how many tasks of an input that a run has not read are made for the line that runs
// them again.
const maxMore = 100_000

// rerun returns how to write the command lines that run again what has no success.
func (s *source) rerun() sink.RerunConfig {
	o := s.opts
	if o.Fed() || o.Protocol() == task.FilterProtocol {
		return sink.RerunConfig{} // crew ctl retry does it, or the tasks' own run; nothing does for filters
	}
	in, c := o.Input, o.Command
	cuts := in.Colsep != nil || in.CSV
	// With -s and {N}, which records are in a task depends on all those before it.
	regroups := c.MaxChars > 0 && s.countsRecords()
	again := cli.Rerun{Options: o}
	number := again.NumberIn(o.Words())
	byRecord := s.results != o.Output.Results
	cfg := sink.RerunConfig{Line: again.Line, Unread: s.rest, State: o.State.Dir != ""}
	if len(in.Paths()) == 0 {
		cfg.ReadMore = s.more
	}
	if (number == "{#}" || number == "" && regroups) && again.CommandsSuffice() && !byRecord {
		again.Whole = true
		cfg.Line, cfg.CommandLines = again.Line, true
		return cfg
	}
	cfg.WhyChanged, cfg.SameCommand = again.Unlike, s.goesOn()
	cfg.Columns, cfg.JSON = in.Sources() > 1 || cuts && !again.AsRead(), in.JSON
	switch {
	case regroups:
		cfg.Batch = math.MaxInt
	case c.MaxChars == 0 && !c.Spread:
		cfg.Batch = c.MaxArgs
	}
	if again.AsRead() {
		cfg.StdinEnd = s.tasks.Separator()
	}
	if in.Header {
		cfg.Header = s.reader.Names
	}
	return cfg
}

// more calls list with the tasks after the one with a number of an input that is all on the
// command line, and returns the number of the last one. all reports whether these are all.
func (s *source) more(id uint64, list func(*task.Task)) (last uint64, all bool) {
	r, err := input.Open(s.input)
	if err != nil {
		return id, false
	}
	defer r.Close()
	next := func() uint64 { last++; return last }
	for tasks := input.NewTasks(r, s.config); last < id+maxMore; {
		t, err := tasks.Next(next)
		if err != nil {
			return last, err == io.EOF
		}
		if t.ID > id {
			list(t)
		}
	}
	return last, false
}

// rest says from where on the input was not read after the task with a number, or from a byte on
// if it is cut into blocks, and how to run that. It returns "" for a terminal, where nobody has
// typed it yet.
func (s *source) rest(id uint64, at int64) string {
	const wholly = "with --state DIR, the same command would go on there"
	o, in := s.opts, s.opts.Input
	if in.Sources() > 1 {
		return fmt.Sprintf("the input was not read from task %d on: %s", id+1, wholly)
	}
	paths := in.Paths()
	if f, ok := s.input.Stdin.(*os.File); ok && slices.Contains(paths, "-") && isatty.IsTerminal(f.Fd()) {
		return ""
	}
	file, from, unit, z := 0, at+1, "byte", ""
	tool := fmt.Sprintf("tail -c +%d", from)
	if !o.Pipe.On {
		file, from = s.tasks.After(id)
		switch unit = "record"; {
		case in.CSV, in.JSON, in.Delim == "\n":
			unit = "line"
		case in.Delim == "\x00" && runtime.GOOS == "linux":
			z = "z"
		default:
			z = "?" // no tool knows such separators
		}
		if tool = fmt.Sprintf("tail -%sn +%d", z, from); in.Header {
			tool = fmt.Sprintf("sed -%se %d,%dd", z, s.reader.Header()+1, from-1)
		}
	}
	again := cli.Rerun{Options: o, Rest: true}
	name, how := task.Printable(paths[file]), wholly
	if name == "-" {
		name = "standard input"
	}
	if number := again.NumberIn(o.Words()); len(paths) == 1 && z != "?" && number == "" && !(o.Pipe.On && in.Header) {
		how = "give it again to: " + tool
		if st, err := os.Stat(paths[0]); name == paths[0] && err == nil && st.Mode().IsRegular() && !strings.Contains(name, "/fd/") {
			how = tool + " " + task.Quote(named(paths[0]))
		}
		how += " | " + again.Line("", "")
	}
	return fmt.Sprintf("%s was not read from %s %d on: %s", name, unit, from, how)
}

// named returns a path as no program takes it for an option.
func named(path string) string {
	if strings.HasPrefix(path, "-") {
		return "./" + path
	}
	return path
}
