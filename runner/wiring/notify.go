package wiring

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"crew/runner"
	"crew/runner/cli"
	"crew/runner/kernel"
	"crew/runner/report"
	"crew/runner/sink"
	"crew/runner/task"
)

// notifyTime is how long crew waits for the command of --notify.
const notifyTime = time.Minute

// notify runs the command of --notify, which gets the digest on its standard input and
// the figures of the run in its environment. What becomes of it changes nothing but a
// line on stderr.
func (w *wiring) notify(end ending) {
	if w.opts.After.Notify == "" || w.digest == nil || w.made == nil {
		return
	}
	text := w.digest.Text()
	for _, line := range end.last {
		text += "crew: " + task.Printable(line) + "\n"
	}
	if end.err != nil {
		text += "crew: " + task.Printable(end.err.Error()) + "\n"
	}
	if text == "" {
		text = w.digest.Total()
	}
	if err := w.runNotify(text, append(os.Environ(), w.figures(end, text)...)); err != nil {
		w.screen.Last("--notify: " + err.Error())
	}
}

// figures returns the variables of the command of --notify.
func (w *wiring) figures(end ending, text string) (env []string) {
	s := w.digest.Stats()
	add := func(name, value string) { env = append(env, "CREW_"+name+"="+value) }
	number := func(name string, n int64) { add(name, strconv.FormatInt(n, 10)) }
	subject, _, _ := strings.Cut(text, "\n")
	dir, _ := os.Getwd()
	add("SUBJECT", subject)
	add("NAME", w.opts.Control.Name)
	add("COMMAND", strings.ReplaceAll(commandLine(w.args), "\x00", ""))
	add("DIR", dir)
	number("STATUS", int64(end.willExit()))
	number("TASKS", s.Admitted)
	number("SUCCEEDED", s.Of(task.OK))
	number("FAILED", s.Failed())
	number("SKIPPED", s.Of(task.Skipped))
	number("CANCELLED", s.Of(task.Cancelled))
	number("NOT_RUN", s.Of(task.NotRun))
	number("RETRIED", s.Retried)
	number("FLAKY", s.Flaky)
	add("SECONDS", strconv.FormatFloat(s.Elapsed(s.Last).Seconds(), 'f', 3, 64))
	add("REPORT", w.opts.After.Report)
	return env
}

// runNotify runs the command in a group of its own, with what it prints on crew's stderr.
func (w *wiring) runNotify(text string, env []string) error {
	in, to, err := os.Pipe()
	if err != nil {
		return err
	}
	var child *os.Process
	var late *time.Timer
	done, killed := make(chan struct{}), make(chan struct{})
	sig := w.signals.Await(func() <-chan struct{} {
		child, err = os.StartProcess("/bin/sh", []string{"/bin/sh", "-c", w.opts.After.Notify}, &os.ProcAttr{
			Env: env, Files: []*os.File{in, w.errs, w.errs}, Sys: &syscall.SysProcAttr{Setpgid: true},
		})
		in.Close()
		if err != nil {
			to.Close()
			close(done)
			return done
		}
		late = time.AfterFunc(notifyTime, func() {
			_ = syscall.Kill(-child.Pid, syscall.SIGKILL)
			close(killed)
		})
		go func() {
			defer close(done)
			_, _ = io.WriteString(to, text) // it may not want to read
			to.Close()
			kernel.Exited(child.Pid, 0) // its ID stays its own until no signal may be sent to it
		}()
		return done
	})
	if err != nil {
		return err
	}
	if sig != 0 { // at Ctrl-C, the terminal tells crew alone
		_ = syscall.Kill(-child.Pid, sig)
		runner.Die(sig, false)
		<-done
	}
	inTime := late.Stop()
	if !inTime {
		<-killed
	}
	switch state, err := child.Wait(); {
	case err != nil:
		return err
	case !inTime:
		return fmt.Errorf("killed, as it ran for %s: have it end sooner, as with timeout(1), or go on in the background", task.Span(notifyTime))
	case !state.Success():
		return fmt.Errorf("%s: %s", state, w.opts.After.Notify)
	}
	return nil
}

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
