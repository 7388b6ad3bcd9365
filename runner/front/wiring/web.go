package wiring

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mattn/go-isatty"

	"crew/runner/decide/task"
	"crew/runner/front/cli"
	"crew/runner/keep/trust"
	"crew/runner/steer/control"
)

const (
	// webProgram writes pages and traces of runs, and serves them. It is a separate program, so that the
	// start of crew does not pay for HTML and HTTP.
	webProgram = "crew-web"
	// webProtocol is the version of the arguments that crew passes to crew-web.
	webProtocol = 1
)

// web replaces this process by crew-web, which carries out crew report and crew web.
func web(o *cli.Options, stdout *os.File) error {
	args := task.HelperCommand(webProgram, webProtocol, o.Do, o.Look.Listen, o.Look.TokenFile)
	if o.Do == cli.DoReport {
		if isatty.IsTerminal(stdout.Fd()) {
			return misuse("crew report prints a page for a browser", "write it to a file, as in crew report "+task.Quote(o.Ctl.Work[0])+" > report.html")
		}
		form := "page"
		switch {
		case o.Look.Trace:
			form = "trace"
		case o.Look.Metrics:
			form = "openmetrics"
		}
		args = append(task.HelperCommand(webProgram, webProtocol, o.Do, form), o.Ctl.Work...)
	}
	return become("crew "+o.Do, installHint, args)
}

// reportSink writes the files of --report and --trace through crew-web. The run starts only after crew-web
// has opened the files, so that a file that cannot be written is refused.
type reportSink struct {
	*control.Log
	child *exec.Cmd
	pipe  io.WriteCloser // to its standard input
	lines *bufio.Reader  // its standard output: "ready", and later an error message
}

// openReport starts crew-web for --report and --trace, and makes the sink that feeds it.
func (w *wiring) openReport() error {
	after := w.opts.After
	if after.Report == "" && after.Trace == "" {
		return nil
	}
	if err := cmp.Or(w.checkReplaces("--report", after.Report), w.checkReplaces("--trace", after.Trace)); err != nil {
		return err
	}
	path, err := findProgram(webProgram, "--report or --trace", installHint)
	if err != nil {
		return err
	}
	r := &reportSink{child: exec.Command(path)}
	r.child.Args, r.child.Stderr = task.HelperCommand(webProgram, webProtocol, "record", after.Report, after.Trace), os.Stderr
	// In its own session crew-web survives the signals that end crew, and can write the files.
	r.child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err1 := r.child.StdinPipe()
	out, err2 := r.child.StdoutPipe()
	if err := cmp.Or(err1, err2, r.child.Start()); err != nil {
		return fmt.Errorf("start %s: %w", webProgram, err)
	}
	r.pipe, r.lines = in, bufio.NewReader(out)
	if line, err := r.lines.ReadString('\n'); err != nil || line != "ready\n" {
		return cmp.Or(r.finish(line), errors.New(path+" is not a program of crew: "+installHint))
	}
	r.Log = control.NewLog(r.pipe, w.about())
	r.KeepsOutput = w.plan.Keeps() && !w.opts.Pool.TTY
	w.onEnd(func() error { return r.finish("") }) // a signal may end crew then: crew-web finishes the files without it
	w.report = r
	return nil
}

// Close writes the totals. finish returns the errors.
func (r *reportSink) Close(final task.Stats) error {
	_ = r.Log.Close(final)
	return nil
}

// finish waits until the files are complete, or returns why they are not. said is the text that
// crew-web has already printed.
func (r *reportSink) finish(said string) error {
	r.pipe.Close()
	rest, _ := io.ReadAll(r.lines)
	err := r.child.Wait()
	said = strings.TrimSpace(said + string(rest))
	switch {
	case said != "":
		return errors.New(said)
	case err != nil:
		return fmt.Errorf("write the report or trace: %s failed: %w", webProgram, err)
	}
	return nil
}

// checkReplaces returns an error if an option would replace a file that the run also uses for something
// else. path may be "".
func (w *wiring) checkReplaces(option, path string) error {
	if path == "" {
		return nil
	}
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		for _, f := range []*os.File{w.out, w.errs} {
			if open, err := f.Stat(); err == nil && os.SameFile(st, open) {
				return fmt.Errorf("%s %s would replace the file that %s goes to: name another file", option, path, f.Name())
			}
		}
	}
	return w.checkOtherFile(option, path)
}

// checkOtherFile returns an error if another option or the input has the file of an option.
func (w *wiring) checkOtherFile(option, path string) error {
	if other := w.opts.OtherFile(option, func(file string) bool { return resolvePath(file) == resolvePath(path) }); other != "" {
		return fmt.Errorf("%s %s would replace the file of %s: name another one", option, path, other)
	}
	return nil
}

// resolvePath returns the absolute path of a file, with symbolic links resolved. The file need not exist.
func resolvePath(path string) string {
	if real, err := trust.Resolve(path); err == nil {
		path = real
	}
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	return path
}
