package wiring

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"crew/runner"
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
	child, err := os.StartProcess("/bin/sh", []string{"/bin/sh", "-c", w.opts.After.Notify}, &os.ProcAttr{
		Env: env, Files: []*os.File{in, w.errs, w.errs}, Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	in.Close()
	if err != nil {
		to.Close()
		return err
	}
	late := time.AfterFunc(notifyTime, func() { _ = syscall.Kill(-child.Pid, syscall.SIGKILL) })
	var state *os.ProcessState
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.WriteString(to, text) // it may not want to read
		to.Close()
		state, err = child.Wait()
	}()
	if sig := w.signals.Await(done); sig != 0 { // at Ctrl-C, the terminal tells crew alone
		_ = syscall.Kill(-child.Pid, sig)
		runner.Die(sig, false)
		<-done
	}
	switch {
	case err != nil:
		return err
	case !late.Stop():
		return fmt.Errorf("killed, as it ran for %s: have it end sooner, as with timeout(1), or go on in the background", task.Span(notifyTime))
	case !state.Success():
		return fmt.Errorf("%s: %s", state, w.opts.After.Notify)
	}
	return nil
}
