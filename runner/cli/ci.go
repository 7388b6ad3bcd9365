package cli

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"crew/runner/report"
	"crew/runner/task"
)

// ci returns the CI server to tell of the run: github, gitlab or none.
func (o *Options) ci(getenv func(string) string) string {
	switch {
	case o.Engine.Worker || o.Engine.Detach || o.Show.DryRun:
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

// group returns what makes the lines around blocks of output, or nil: they stand among
// the tasks' output, so the server has to be named.
func (o *Options) group(p task.Plan) func(t *task.Task, r *task.Result, stderr bool) (begin, end string) {
	switch {
	case p.Show != task.ShowBlocks || o.Show.DryRun:
	case o.Show.CI == "github":
		return report.GitHubGroup
	case o.Show.CI == "gitlab":
		return report.GitLabGroup
	}
	return nil
}

// annotate returns the sink that tells GitHub Actions what has failed.
func (w *wiring) annotate() *report.CI {
	dir, _ := filepath.Abs(cmp.Or(w.opts.Pool.Workdir, ".")) // without one, no file is named
	return report.NewCI(report.CIConfig{
		Command: strings.Join(w.opts.words(), " "), Dir: dir, Root: os.Getenv("GITHUB_WORKSPACE"),
		Summary: os.Getenv("GITHUB_STEP_SUMMARY"), Say: w.screen.Say, Notice: w.screen.Notice,
	})
}
