package web

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"

	"crew/runner/decide/task"
	"crew/runner/keep/series"
	"crew/runner/keep/trust"
	"crew/runner/show/history"
	"crew/runner/show/view"
)

// maker makes a page, a trace or both from lines.
type maker struct {
	page  *out // nil for none
	trace *out
	fold  *history.Fold
	lines int64

	tracer  *view.Trace
	archive []series.Curves // of a queue
}

// out is the destination of a page or a trace.
type out struct {
	*bufio.Writer
	file *trust.AtomicFile // nil for stdout
	what string            // for messages
}

// newMaker returns a maker of a page, a trace or both; nil means none.
func newMaker(page, trace *out) *maker {
	m := &maker{page: page, trace: trace, fold: history.NewFold()}
	if trace != nil {
		m.tracer = view.NewTrace(trace, m.fold)
	}
	return m
}

func (m *maker) add(l *history.Line) {
	if l.Name == history.Damaged {
		fmt.Fprintln(os.Stderr, "crew: "+task.Printable(l.Text))
		return
	}
	if m.lines++; m.trace != nil {
		m.tracer.Add(l)
	} else {
		m.fold.Add(l)
	}
}

// complete writes the page and finishes the trace.
func (m *maker) complete() error {
	var errs error
	if m.page != nil {
		report := m.fold.Report()
		report.Archive = m.archive
		errs = m.page.complete(view.Page(m.page, report, ""))
	}
	if m.trace != nil { // after the page, because closing the trace ends the run
		errs = errors.Join(errs, m.trace.complete(m.tracer.Close()))
	}
	return errs
}

// complete flushes the output and puts the file in place, unless err, the error of writing it, is set.
func (o *out) complete(err error) error {
	if err = cmp.Or(err, o.Flush()); err == nil && o.file != nil {
		err = o.file.Commit()
	}
	return o.fail(err)
}

func (o *out) fail(err error) error {
	if _, untrusted := errors.AsType[*trust.Error](err); err == nil || untrusted {
		return err
	}
	return fmt.Errorf("write %s: %w", o.what, task.WithoutPath(err))
}

// report writes the page or the trace of sources to stdout.
func report(trace bool, sources []string) error {
	to := &out{Writer: bufio.NewWriterSize(os.Stdout, 64<<10), what: "to stdout"}
	m := newMaker(to, nil)
	if trace {
		m = newMaker(nil, to)
	}
	for _, name := range sources {
		m.fold.Source(name)
		if err := history.Read(name, os.Stdin, m.add); err != nil {
			return err
		}
	}
	if len(sources) == 1 {
		var err error
		if m.archive, err = series.ReadFile(sources[0]); err != nil {
			fmt.Fprintln(os.Stderr, "crew: "+task.Printable(err.Error()))
		}
	}
	return m.complete()
}

// record reads the events of a run from stdin and, once it ends, writes a page, a trace or both. It
// prints "ready" on stdout once the files are open. If the run never began, the old files stay.
func record(page, trace string) error {
	var outs [2]*out
	for i, path := range [...]string{page, trace} {
		if path == "" {
			continue
		}
		o := &out{what: [...]string{"report ", "trace "}[i] + path}
		var err error
		if o.file, err = trust.CreateAtomic(path); err != nil {
			return o.fail(err)
		}
		defer o.file.Drop()
		o.Writer = bufio.NewWriterSize(o.file, 64<<10)
		outs[i] = o
	}
	if _, err := io.WriteString(os.Stdout, "ready\n"); err != nil {
		return err
	}
	m := newMaker(outs[0], outs[1])
	if err := history.ReadStream("", os.Stdin, m.add); err != nil || m.lines == 0 {
		return err
	}
	return m.complete()
}
