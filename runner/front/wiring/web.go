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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"

	"crew/runner/decide/task"
	"crew/runner/front/cli"
	"crew/runner/keep/trust"
	"crew/runner/steer/control"
)

const (
	// webProgram makes pages and traces of runs, and serves them. It is a program of its
	// own so that crew's start-up does not pay for what HTML and HTTP take.
	webProgram = "crew-web"
	// WebProtocol is the version of what crew hands over to crew-web: its arguments.
	WebProtocol = 1
	webHint     = engineHint
)

// webArgs returns the arguments of crew-web.
func webArgs(words ...string) []string {
	return append([]string{webProgram, strconv.Itoa(WebProtocol)}, words...)
}

// web replaces this process by crew-web, which carries out crew report and crew web.
func web(o *cli.Options, stdout *os.File) error {
	what := "crew " + o.Do
	args := webArgs(o.Do, o.Look.Listen, o.Look.TokenFile)
	if o.Do == cli.DoReport {
		if isatty.IsTerminal(stdout.Fd()) {
			return misuse("crew report prints a page for a browser", "write it to a file, as in crew report "+task.Quote(o.Ctl.Work[0])+" > report.html")
		}
		form := "page"
		if o.Look.Trace {
			form = "trace"
		}
		args = append(webArgs(o.Do, form), o.Ctl.Work...)
	}
	path, err := findProgram(webProgram, what, webHint)
	if err != nil {
		return err
	}
	return &os.PathError{Op: "execute", Path: path, Err: syscall.Exec(path, args, os.Environ())}
}

// record has crew-web write the files of --report and --trace. Until it has opened them it
// holds up the start of the run, so that what cannot be written is refused.
type record struct {
	*control.Log
	child *exec.Cmd
	pipe  io.WriteCloser // to its standard input
	said  *bufio.Reader  // its standard output: a line once it is ready, then what went wrong
	late  bool           // crew-web has not read for webTime, and gets nothing more
}

// webTime is how long crew-web may keep crew waiting.
const webTime = 10 * time.Second

// patient is a pipe on which a write fails if nobody reads for webTime.
type patient struct{ *os.File }

func (p patient) Write(b []byte) (int, error) {
	_ = p.SetWriteDeadline(time.Now().Add(webTime))
	return p.File.Write(b)
}

// openRecord returns the sink that makes the files.
func (w *wiring) openRecord() (*record, error) {
	after := w.opts.After
	if err := cmp.Or(w.replaceable("--report", after.Report), w.replaceable("--trace", after.Trace)); err != nil {
		return nil, err
	}
	path, err := findProgram(webProgram, "--report or --trace", webHint)
	if err != nil {
		return nil, err
	}
	r := &record{child: exec.Command(path)}
	r.child.Args, r.child.Stderr = webArgs("record", after.Report, after.Trace), os.Stderr
	// In a session of its own, what ends crew does not keep it from writing what is known by then.
	r.child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err1 := r.child.StdinPipe()
	out, err2 := r.child.StdoutPipe()
	if err := cmp.Or(err1, err2, r.child.Start()); err != nil {
		return nil, fmt.Errorf("start %s: %w", webProgram, err)
	}
	r.pipe, r.said = in, bufio.NewReader(out)
	late := time.AfterFunc(webTime, func() { _ = r.child.Process.Kill() })
	line, err := r.said.ReadString('\n')
	late.Stop()
	if err != nil || line != "ready\n" {
		if err = r.finish(line); err == nil {
			err = fmt.Errorf("%s is no program of crew: %s", path, webHint)
		}
		return nil, err
	}
	r.Log = control.NewLog(patient{r.pipe.(*os.File)}, w.about())
	r.Keeps = w.plan.Keeps() && !w.opts.Pool.TTY
	w.close = append(w.close, func() error {
		w.signals.Release() // crew-web finishes the files without crew, too
		return r.finish("")
	})
	return r, nil
}

// Close writes the totals. What goes wrong, finish tells.
func (r *record) Close(final task.Stats) error {
	r.late = errors.Is(r.Log.Close(final), os.ErrDeadlineExceeded)
	return nil
}

// finish waits until the files are complete, and returns why they are not. said is what
// crew-web has said already.
func (r *record) finish(said string) error {
	r.pipe.Close()
	rest, _ := io.ReadAll(r.said)
	err := r.child.Wait()
	said = strings.TrimSpace(said + string(rest))
	switch {
	case said != "":
		return errors.New(said)
	case r.late:
		return fmt.Errorf("%s has not read for %s: the report or trace lacks what came after that", webProgram, task.Span(webTime))
	case err != nil:
		return fmt.Errorf("write the report or trace: %s has ended with %w", webProgram, err)
	}
	return nil
}

// replaceable returns an error if an option would replace a file that the run uses
// otherwise. path may be "".
func (w *wiring) replaceable(option, path string) error {
	if path == "" {
		return nil
	}
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		for _, f := range []*os.File{w.out, w.errs} {
			if open, err := f.Stat(); err == nil && os.SameFile(st, open) {
				return fmt.Errorf("%s %s would replace what %s goes to: name another file", option, path, f.Name())
			}
		}
	}
	if other := w.opts.OtherFile(option, func(file string) bool { return leadsTo(file) == leadsTo(path) }); other != "" {
		return fmt.Errorf("%s %s would replace the file of %s: name another one", option, path, other)
	}
	return nil
}

// leadsTo returns the absolute path of the file that a path leads to, which need not be there.
func leadsTo(path string) string {
	if real, err := trust.Resolve(path); err == nil {
		path = real
	}
	if whole, err := filepath.Abs(path); err == nil {
		path = whole
	}
	return path
}
