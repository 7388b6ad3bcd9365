package wiring

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"crew/runner/cli"
	"crew/runner/report"
	"crew/runner/sink"
	"crew/runner/task"
)

// ciServer returns the CI server to tell of the run: github, gitlab or none.
func ciServer(o *cli.Options, getenv func(string) string) string {
	switch {
	case o.Do == cli.DoWork || o.Engine.Detach || o.Show.DryRun:
		return "none"
	case o.Show.CI != "auto":
		return o.Show.CI
	case getenv("CREW_PID") != "": // the crew whose task this is tells of it
		return "none"
	case getenv("GITHUB_ACTIONS") == "true":
		return "github"
	case getenv("GITLAB_CI") == "true":
		return "gitlab"
	}
	return "none"
}

// openLog prepares the streams for the log of the CI server, if that is named, and returns
// what makes the lines around blocks of output, or nil. These stand among the tasks' output.
func (w *wiring) openLog() (group func(t *task.Task, r *task.Result, stderr bool) (begin, end string)) {
	server := ciServer(w.opts, func(string) string { return "" })
	if server == "none" {
		return nil
	}
	log, blocks := report.NewLog(), w.plan.Show == task.ShowBlocks
	if server == "gitlab" && blocks {
		return log.GitLabGroup
	} else if server == "gitlab" {
		return nil
	}
	var f sink.Fence
	f.Stop, f.Resume = log.GitHubFence()
	w.screen.Guard(f)
	if blocks {
		return log.GitHubGroup
	}
	if w.plan.Streams() {
		w.onClose(w.screen.Enclose(f, w.plan.Show == task.ShowRaw))
	}
	return nil
}

// annotate returns the sink that tells GitHub Actions what has failed.
func (w *wiring) annotate() *report.CI {
	dir, _ := filepath.Abs(cmp.Or(w.opts.Pool.Workdir, ".")) // without one, no file is named
	return report.NewCI(report.CIConfig{
		Command: strings.Join(w.opts.Words(), " "), Dir: dir, Root: os.Getenv("GITHUB_WORKSPACE"),
		Summary: os.Getenv("GITHUB_STEP_SUMMARY"), Say: w.screen.Command, Notice: w.screen.Notice,
	})
}
