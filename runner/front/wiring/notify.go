package wiring

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"crew/runner"
	"crew/runner/decide/task"
	"crew/runner/show/report"
	"crew/runner/show/sink"
)

// notifyTimeout is how long crew waits for the command of --notify.
const notifyTimeout = time.Minute

// notify runs the command of --notify, with the digest on its standard input and the figures of the run
// in its environment. A failure is reported on stderr and changes nothing else.
func (w *wiring) notify(end ending) {
	if w.opts.After.Notify == "" || w.run == nil {
		return
	}
	text := w.digest.Text()
	for _, line := range end.last {
		text += "crew: " + task.Printable(line) + "\n"
	}
	if text == "" {
		text = w.digest.TotalsLine()
	}
	if err := w.runNotify(text, append(os.Environ(), w.notifyEnv(end, text)...)); err != nil {
		w.screen.Urgent("--notify: " + err.Error())
	}
}

// notifyEnv returns the variables for the command of --notify.
func (w *wiring) notifyEnv(end ending, text string) (env []string) {
	s := &w.digest.Stats
	subject, _, _ := strings.Cut(text, "\n")
	dir, _ := os.Getwd()
	for name, value := range map[string]any{
		"SUBJECT": subject, "NAME": w.opts.Control.Name, "COMMAND": strings.ReplaceAll(w.command, "\x00", ""), "DIR": dir,
		"STATUS": end.exitStatus(), "TASKS": s.Admitted, "SUCCEEDED": s.ByOutcome[task.OK], "FAILED": s.Failed(), "SKIPPED": s.ByOutcome[task.Skipped],
		"CANCELLED": s.ByOutcome[task.Cancelled], "NOT_RUN": s.ByOutcome[task.NotRun], "RETRIED": s.Retried, "FLAKY": s.Flaky,
		"SECONDS": fmt.Sprintf("%.3f", s.Elapsed(s.Last).Seconds()), "REPORT": w.opts.After.Report,
	} {
		env = append(env, fmt.Sprintf("CREW_%s=%v", name, value))
	}
	return env
}

// runNotify runs the command in its own process group. Its output goes to crew's stderr.
func (w *wiring) runNotify(text string, env []string) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), notifyTimeout)
	defer cancel()
	child, kill := exec.CommandContext(ctx, "/bin/sh", "-c", w.opts.After.Notify), syscall.SIGKILL
	child.Env, child.Stdin, child.Stdout, child.Stderr = env, strings.NewReader(text), w.errs, w.errs
	child.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	child.Cancel = func() error {
		err := syscall.Kill(-child.Process.Pid, kill)
		if kill != syscall.SIGKILL { // the command may take its time to end
			runner.Die(kill, false)
		}
		return err
	}
	child.WaitDelay = time.Second // for background children that still read the text
	sig, done := w.signals.Await(func() { err = child.Run() })
	if sig != 0 { // at Ctrl-C, the terminal signals only crew's process group
		kill = sig
		cancel()
		<-done
		runner.Die(sig, false)
	}
	switch state := child.ProcessState; {
	case state == nil:
		return err
	case ctx.Err() == context.DeadlineExceeded:
		return fmt.Errorf("killed after %s: make it end sooner, for example with timeout(1), or run it in the background", task.Span(notifyTimeout))
	case !state.Success():
		return fmt.Errorf("%s: %s", state, w.opts.After.Notify)
	}
	return nil
}

// openCILog prepares stdout and stderr for the log of the CI server that --ci names. It returns a function
// that makes the lines around a block of output, or nil. With --ci=auto it does nothing, because these
// lines would be part of the output.
func (w *wiring) openCILog() (group func(t *task.Task, r *task.Result, stderr bool) (begin, end string)) {
	server := w.plan.ci
	if server == "none" || w.opts.Show.CI == "auto" {
		return nil
	}
	log, blocks := report.NewLog(), w.plan.Show == task.ShowBlocks
	if server == "gitlab" {
		if blocks {
			return log.GitLabGroup
		}
		return nil
	}
	var f sink.Fence
	f.Stop, f.Resume = log.GitHubFence()
	w.screen.FenceOwnLines(f)
	if blocks {
		return log.GitHubGroup
	}
	if w.plan.Streams() {
		w.onClose(w.screen.FenceOutput(f, w.plan.Show == task.ShowRaw))
	}
	return nil
}

// newAnnotations returns the sink that reports failures to GitHub Actions.
func (w *wiring) newAnnotations() *report.CI {
	dir, _ := filepath.Abs(w.opts.Pool.Workdir) // without a directory, annotations name no file
	return report.NewCI(report.CIConfig{
		Command: strings.Join(w.opts.Words(), " "), Dir: dir, Root: os.Getenv("GITHUB_WORKSPACE"),
		Summary: os.Getenv("GITHUB_STEP_SUMMARY"), Digest: w.digest.Text, Say: w.screen.CICommands, Notice: w.screen.Notice,
	})
}
