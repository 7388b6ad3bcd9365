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

// maxMore is how many unread tasks are made for the command line that reruns them.
const maxMore = 100_000

// rerunConfig returns how to write the command lines that rerun the tasks that did not succeed.
func (s *source) rerunConfig() sink.RerunConfig {
	o := s.opts
	if o.Fed() || o.Protocol() == task.FilterProtocol {
		return sink.RerunConfig{} // use crew ctl retry, or the tasks' own run; filters cannot be rerun
	}
	in, c := o.Input, o.Command
	cuts := in.Colsep != nil || in.CSV
	// With -s and {N}, which records are in a task depends on all those before it.
	regroups := c.MaxChars > 0 && s.indexesRecords()
	again := cli.Rerun{Options: o}
	number := again.NumberPlaceholder(o.Words())
	byRecord := s.results != o.Output.Results
	cfg := sink.RerunConfig{Line: again.Line, Unread: s.describeRest, State: o.State.Dir != ""}
	if len(in.Paths()) == 0 {
		cfg.ReadMore = s.listMore
	}
	if (number == "{#}" || number == "" && regroups) && again.CommandsSuffice() && !byRecord {
		again.CommandLines = true
		cfg.Line, cfg.CommandLines = again.Line, true
		return cfg
	}
	cfg.WhyChanged, cfg.SameCommand = again.WhyChanged, s.resumes()
	cfg.Columns, cfg.JSON = in.Sources() > 1 || cuts && !again.TakesText(), in.JSON
	switch {
	case regroups:
		cfg.Batch = math.MaxInt
	case c.MaxChars == 0 && !c.Spread:
		cfg.Batch = c.MaxArgs
	}
	if again.TakesText() {
		cfg.StdinEnd = s.tasks.Separator()
	}
	if in.Header > 0 {
		cfg.Header = s.reader.Names
	}
	return cfg
}

// listMore calls list for the tasks after number id, of an input that is entirely on the command line. It
// returns the number of the last task, and whether the list is complete.
func (s *source) listMore(id uint64, list func(*task.Task)) (last uint64, all bool) {
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

// describeRest says from where on the input was not read, and how to run the rest: from the record after
// task id or, with --pipe, from the byte after at. It returns "" for a terminal, where the rest was not
// typed yet.
func (s *source) describeRest(id uint64, at int64) string {
	const wholly = "with --state DIR, the same command would continue there"
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
		case in.CSV, in.JSON, in.Delimiter == "", in.Delimiter == "\n":
			unit = "line"
		case in.Delimiter == "\x00" && runtime.GOOS == "linux":
			z = "z"
		default:
			z = "?" // no tool handles this separator
		}
		if tool = fmt.Sprintf("tail -%sn +%d", z, from); in.Header+in.Skip > 0 && from > 1 {
			tool = fmt.Sprintf("sed -%se %d,%dd", z, s.reader.Header()+1, from-1)
		}
	}
	again := cli.Rerun{Options: o, Unread: true}
	name, how := task.Printable(paths[file]), wholly
	if name == "-" {
		name = "standard input"
	}
	if number := again.NumberPlaceholder(o.Words()); len(paths) == 1 && z != "?" && number == "" && !(o.Pipe.On && in.Header+in.Skip > 0) && !in.Shard.ByPosition() {
		how = "give it again to: " + tool
		if st, err := os.Stat(paths[0]); name == paths[0] && err == nil && st.Mode().IsRegular() && !strings.Contains(name, "/fd/") {
			how = tool + " " + task.Quote(asPath(paths[0]))
		}
		how += " | " + again.Line("", "")
	}
	return fmt.Sprintf("%s was not read from %s %d on: %s", name, unit, from, how)
}

// asPath returns a path in a form that no program takes for an option.
func asPath(path string) string {
	if strings.HasPrefix(path, "-") {
		return "./" + path
	}
	return path
}
