package wiring

import (
	"math"
	"os"
	"path/filepath"

	"crew/runner/cli"
	"crew/runner/sink"
	"crew/runner/task"
)

// rerun returns how to write the command line that runs failed tasks again.
func (s *source) rerun() sink.RerunConfig {
	o := s.opts
	dir := func() string { return failedDir(o) }
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
	if (number == "{#}" || number == "" && regroups) && again.CommandsSuffice() && !byRecord {
		again.Whole = true
		return sink.RerunConfig{Line: again.Line, Dir: dir, RerunRecords: sink.RerunRecords{Whole: true}}
	}
	cfg := sink.RerunConfig{
		Line:         again.Line,
		Unlike:       again.Unlike,
		Dir:          dir,
		State:        o.State.Dir != "",
		Same:         s.goesOn(),
		RerunRecords: sink.RerunRecords{Columns: in.Sources() > 1 || cuts && !again.AsRead(), JSON: in.JSON},
	}
	switch {
	case regroups:
		cfg.Batch = math.MaxInt
	case c.MaxChars == 0 && !c.Spread:
		cfg.Batch = c.MaxArgs
	}
	if again.AsRead() {
		cfg.Stdin = s.tasks.Separator()
	}
	if in.Header {
		cfg.Header = s.reader.Names
	}
	return cfg
}

// failedDir returns the directory for files of failed records, or "" if there is no
// place for it. It follows the XDG Base Directory Specification.
func failedDir(o *cli.Options) string {
	if o.State.Dir != "" {
		return o.State.Dir
	}
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "crew")
	}
	home := os.Getenv("HOME")
	if st, err := os.Stat(home); !filepath.IsAbs(home) || err != nil || !st.IsDir() {
		return ""
	}
	return filepath.Join(home, ".local/state/crew")
}
