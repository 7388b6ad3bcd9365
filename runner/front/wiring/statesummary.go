package wiring

import (
	"bufio"
	"cmp"
	_ "embed" // the summary
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"
	"syscall"
	"text/template"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/journal"
	"crew/runner/show/history"
	"crew/runner/show/sink"
)

// showState carries out crew state. It prints a summary of the journal in dir or, with json, the journal
// itself as lines of JSON.
func showState(dir string, json bool, stdout *os.File) (err error) {
	t := summary{Now: time.Now()}
	if json {
		out := bufio.NewWriterSize(sink.Patient{Writer: stdout}, 64<<10)
		_, err = journal.Dump(dir, out)
		err = cmp.Or(out.Flush(), err)
	} else {
		t.Summary, t.Report, err = history.State(dir)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s holds no journal: give the directory of a run with --state", dir)
	case err != nil || json:
		return err
	}
	return printText(stdout, t.text())
}

// stateText is the template of the summary that crew state prints.
//
//go:embed statesummary.txt
var stateText string

// summary describes a journal for people.
type summary struct {
	*journal.Summary
	*history.Report
	Now time.Time
}

func (t summary) text() string {
	funcs := template.FuncMap{
		"line":    func(s any) string { return task.Printable(fmt.Sprint(s)) },
		"span":    func(d time.Duration) string { return task.Span(max(0, d)) },
		"date":    task.Moment,
		"size":    task.Size,
		"later":   task.AttemptSuffix,
		"outcome": func(i int) task.Outcome { return task.Outcome(i) },
		"count":   func(n any, thing string) string { return task.Count(reflect.ValueOf(n).Int(), thing) },
		"less":    func(n, list any) int { return int(reflect.ValueOf(n).Int()) - reflect.ValueOf(list).Len() },
		"first":   func(n int, list []history.Ended) []history.Ended { return list[:min(n, len(list))] },
	}
	var b strings.Builder
	if err := template.Must(template.New("").Funcs(funcs).Parse(stateText)).Execute(&b, t); err != nil {
		panic("internal error: " + err.Error())
	}
	return b.String()
}

// Took returns how long the latest run took, or has taken so far, as far as the journal shows.
func (t summary) Took() time.Duration {
	until := t.Begun
	if n := len(t.Runs); n > 0 {
		until = t.Runs[n-1].End
	}
	if t.Process != "" {
		until = t.Now
	}
	return until.Sub(t.Begun)
}

// Named returns the keys that took longest, or nil if no task has a key.
func (t summary) Named() []history.Group {
	keys := t.Keys.List
	if len(keys) == 1 && keys[0].Name == "" {
		return nil
	}
	return keys[:min(len(keys), journal.MaxMentioned)]
}

// Others returns how many tasks have keys that Named leaves out.
func (t summary) Others() (n int64) {
	for i, k := range t.Named() {
		if i == 0 {
			n = t.Total.Tasks
		}
		n -= k.Tasks
	}
	return n
}
