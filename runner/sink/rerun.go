package sink

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"crew/runner/task"
)

const (
	rerunLine = 2 << 10 // bytes of the line past which the records go to a file
	unit      = "\x1f"  // between the columns of a record in the file (ASCII unit separator)
)

// RerunConfig says how the line that runs the failed tasks again is spelt.
type RerunConfig struct {
	// Line is the whole command line, ready for a shell, with the options that
	// name the source of records ("-0 -a FILE") among the others and the values
	// (":::" and what follows) at its end. One of the two is empty, or both
	// when only the length is asked for. What read or cut the records of this
	// run (-a, -0, -d, -C, --csv, --input, -E) is left out of it, --header is
	// not. Nil means that no line is shown.
	Line func(options, values string) string
	// Header are the names of the columns under --header. It is called when
	// the first task has failed, from the goroutine of the sinks. Nil without
	// --header.
	Header func() []string
	// Columns says that a record can have more than one column.
	Columns bool
	// JSON says that tasks come from JSON objects (--input json). They are
	// run again from a file that holds those objects.
	JSON bool
	// Dir is where the file goes that takes what a line cannot; empty is
	// os.TempDir().
	Dir string
}

// rerun collects the records of failed tasks: in memory while they fit into one
// line that a person can copy, then in a file, so memory stays flat.
//
// The file holds NUL-terminated records with columns separated by one control
// byte, not JSON: columns are bytes, and JSON has only text.
type rerun struct {
	cfg RerunConfig

	rows   [][]string // the header, if any, and the records that are not in the file
	begun  bool
	listed int // tasks that are in rows or in the file
	left   int // tasks that are in neither
	size   int // bytes that rows take in the line
	file   *os.File
	w      *bufio.Writer // on file; keeps its first error
	err    error         // why there is no file
}

func (r *rerun) add(t *task.Task) {
	if r.err != nil {
		return
	}
	if !r.can(t) {
		r.left++
		return
	}
	r.listed++
	if r.cfg.JSON {
		if r.open() {
			r.w.WriteString(t.Object)
			r.w.WriteByte('\n')
		}
		return
	}
	if !r.begun {
		r.begun = true
		r.size = len(r.cfg.Line("", "")) + len(" :::")
		if r.cfg.Header != nil {
			r.row(r.cfg.Header())
		}
	}
	for _, rec := range t.Records {
		r.row(rec)
	}
}

// can says whether a task's records can be given to another run.
func (r *rerun) can(t *task.Task) bool {
	if t.Err != nil {
		return false
	}
	if r.cfg.JSON {
		return t.Object != ""
	}
	for _, rec := range t.Records {
		for _, col := range rec {
			if strings.Contains(col, "\x00") || r.cfg.Columns && strings.Contains(col, unit) {
				return false
			}
		}
	}
	return len(t.Records) > 0
}

// row takes one record.
func (r *rerun) row(cols []string) {
	if r.file == nil && r.fits(cols) {
		kept := make([]string, len(cols))
		for i, c := range cols {
			kept[i] = strings.Clone(c) // a column may hold on to a large buffer of the input
		}
		r.rows = append(r.rows, kept)
		return
	}
	if r.file == nil {
		if !r.open() {
			return
		}
		for _, kept := range r.rows {
			r.write(kept)
		}
		r.rows = nil
	}
	r.write(cols)
}

// fits counts a record's columns in and says whether the line can hold them. It
// cannot where it gets too long, where a value would be read as a separator of
// sources, and where a terminal would not show a value so that it can be copied.
func (r *rerun) fits(cols []string) bool {
	for _, c := range cols {
		r.size += len(task.Quote(c)) + 1
		switch c {
		case ":::", ":::+", "::::", "::::+":
			return false
		}
		if !utf8.ValidString(c) || strings.IndexFunc(c, unprintable) >= 0 || strings.Contains(c, "\t") {
			return false
		}
	}
	return r.size <= rerunLine
}

func (r *rerun) write(cols []string) {
	r.w.WriteString(strings.Join(cols, unit))
	r.w.WriteByte(0)
}

// open makes the file on first need.
func (r *rerun) open() bool {
	if r.file != nil {
		return true
	}
	name := "crew-failed-*.nul"
	if r.cfg.JSON {
		name = "crew-failed-*.json"
	}
	// The mode of a new temporary file is 0600.
	f, err := os.CreateTemp(r.cfg.Dir, name)
	if err != nil {
		r.err = err
		return false
	}
	r.file, r.w = f, bufio.NewWriter(f)
	return true
}

// text is the digest's lines on how to run the failed tasks again.
func (r *rerun) text() string {
	options, values := "", r.values()
	if r.file != nil {
		values = ""
		options = "-0 -a " + task.Quote(r.file.Name())
		switch {
		case r.cfg.JSON:
			options = "--input json -a " + task.Quote(r.file.Name())
		case r.cfg.Columns:
			options = `-0 -C '\x1f' -a ` + task.Quote(r.file.Name())
		}
		r.close()
	}
	var s string
	switch {
	case r.err != nil:
		return "crew: no line to run them again, as their records cannot be kept: " + harmless(r.err.Error()) + "\n"
	case r.listed > 0:
		s = "crew: run them again: " + r.cfg.Line(options, values) + "\n"
	}
	if r.left > 0 {
		s += fmt.Sprintf("crew: %s cannot be run again from a list\n", count(int64(r.left), "failed task"))
	}
	return s
}

// drop removes the file, since nobody is told of it.
func (r *rerun) drop() {
	if r.file != nil {
		r.file.Close()
		os.Remove(r.file.Name())
	}
}

// close ends the file; one that does not hold everything is removed.
func (r *rerun) close() {
	err := r.w.Flush()
	if e := r.file.Close(); err == nil {
		err = e
	}
	if err != nil {
		os.Remove(r.file.Name())
		r.err = err
	}
}

// values are the records as linked sources, a source a column: ::: a b :::+ c d.
// Missing columns are empty ones there.
func (r *rerun) values() string {
	if len(r.rows) == 0 {
		return ""
	}
	widest := slices.MaxFunc(r.rows, func(a, b []string) int { return len(a) - len(b) })
	var b strings.Builder
	for c := range widest {
		if c > 0 {
			b.WriteString(" :::+")
		} else {
			b.WriteString(":::")
		}
		for _, row := range r.rows {
			v := ""
			if c < len(row) {
				v = row[c]
			}
			b.WriteString(" " + task.Quote(v))
		}
	}
	return b.String()
}
