package sink

import (
	"bufio"
	"cmp"
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
	// (":::" and what follows) at its end. Both are empty when only the length
	// is asked for. What read or cut the records of this run (-a, -0, -d, -C,
	// --csv, --input, -E) is left out of it, --header is not, nor what is said
	// at Stdin. Nil means that no line is shown.
	Line func(options, values string) string
	// Header are the names of the columns under --header. It is called when
	// the first task has failed, from the goroutine of the sinks. Nil without
	// --header.
	Header func() []string
	// Columns says that a record can have more than one column, each given by
	// itself.
	Columns bool
	// Batch is how many records a task takes where it can (-n); 0 says that any
	// number will do, the largest int that only one task can be listed.
	Batch int
	// Stdin is what ends each record where tasks read them (--stdin); -0 or -d
	// then stays in the line. Without Columns, records are run again as they were
	// read, and what cuts them (-C, --csv) stays there too. Empty without.
	Stdin string
	// Unlike says why a task would be another one if it was listed ("{#} would be
	// another number"), or nothing. It is called for each failed task, from the
	// goroutine of the sinks. Nil says that none would be.
	Unlike func(t *task.Task) string
	// Whole says that the records of the line are the failed tasks' own command
	// lines. Nothing but Line and Dir goes with it.
	Whole bool
	// JSON says that tasks come from JSON objects (--input json). They are
	// run again from a file that holds those objects.
	JSON bool
	// State says that the run keeps a journal, by which --retry-failed knows what
	// has failed.
	State bool
	// Dir is where the file goes that takes what a line cannot; empty is
	// os.TempDir().
	Dir string
}

// rerun collects the records of failed tasks: in memory while they fit into one
// line that a person can copy, then in a file, so memory stays flat. The line
// has them in the order of input; the file mostly in the order of failure.
//
// The file holds NUL-terminated records, with columns separated by one control
// byte, not JSON: columns are bytes, and JSON has only text. Where tasks read
// their records, those end as they did.
//
// Several records of a task stay together, as a command may go by their places:
// they are put into tasks anew by their number, so only the last of those listed
// may have fewer than the others.
type rerun struct {
	cfg RerunConfig

	header []string   // if any
	kept   []failure  // those that are not in the file
	short  [][]string // records of the one task that has fewer: they go last
	begun  bool
	listed int    // tasks that are in kept, short or the file
	left   int    // tasks that are in none of them
	unlike int    // tasks that would be others
	why    string // they would be
	width  int    // columns of the first record
	size   int    // bytes that kept and short take in the line
	file   *os.File
	w      *bufio.Writer // on file; keeps its first error
	err    error         // why there is no file
}

// failure is a failed task as it is listed.
type failure struct {
	id      uint64
	records [][]string
}

func (r *rerun) add(t *task.Task) {
	if r.err != nil {
		return
	}
	if r.cfg.Unlike != nil {
		if why := r.cfg.Unlike(t); why != "" {
			r.unlike++
			r.why = why
			return
		}
	}
	if r.cfg.JSON {
		if t.Err != nil || t.Object == "" {
			r.left++
		} else if r.listed++; r.open() {
			r.w.WriteString(t.Object)
			r.w.WriteByte('\n')
		}
		return
	}
	r.begin()
	f, ok := r.listing(t)
	short := len(f.records) < r.cfg.Batch
	if !ok || short && r.short != nil {
		r.left++
		return
	}
	size := r.size
	fits := r.fit(f.records)
	if !fits && r.lineOnly() {
		r.left++
		r.size = size
		return
	}
	r.listed++
	if short {
		r.short = f.records
	} else if r.file == nil {
		r.kept = append(r.kept, f)
	} else {
		r.write(f.records)
	}
	if r.file == nil && (!fits || !r.even(f.records) && !r.lineOnly()) {
		r.spill()
	}
}

// even says whether records have as many columns as the first: in the line they
// all would have.
func (r *rerun) even(records [][]string) bool {
	for _, cols := range records {
		if r.width == 0 {
			r.width = len(cols)
		}
		if len(cols) != r.width {
			return false
		}
	}
	return true
}

// begin counts in what the line has beside records.
func (r *rerun) begin() {
	if r.begun {
		return
	}
	r.begun = true
	r.size = len(r.cfg.Line("", "")) + len(" :::")
	if r.cfg.Header == nil {
		return
	}
	r.header = r.cfg.Header()
	r.width = len(r.header)
	if r.fit([][]string{r.header}) {
		return
	}
	if r.lineOnly() {
		r.size = rerunLine // so that nothing fits
	} else {
		r.spill()
	}
}

// lineOnly says whether no file can have the records: tasks would read what
// stands between columns there.
func (r *rerun) lineOnly() bool { return r.cfg.Stdin != "" && r.cfg.Columns }

// listing is what is listed of a task. ok is false where its records cannot be
// given to another run.
func (r *rerun) listing(t *task.Task) (f failure, ok bool) {
	if t.Err != nil || len(t.Records) == 0 {
		return f, false
	}
	// Clones, as a column may hold on to a large buffer of the input.
	f.id = t.ID
	if r.cfg.Whole {
		line := t.CommandLine(t.Argv)
		if t.Shell {
			line = strings.Clone(line)
		} else {
			line = "exec " + line // the program, and no built-in of that name
		}
		f.records = [][]string{{line}}
		return f, !t.Varies() && !strings.HasPrefix(line, "#")
	}
	if sep := r.cfg.Stdin; sep != "" && !r.cfg.Columns {
		texts := strings.Split(string(t.Stdin), sep)
		last := len(texts) - 1
		for _, text := range texts[:last] {
			f.records = append(f.records, []string{text})
		}
		// A record may hold what ends it, and columns of a header cannot be put
		// together again.
		return f, last == len(t.Records) && texts[last] == "" && len(r.header) <= 1
	}
	for _, rec := range t.Records {
		cols := make([]string, len(rec))
		for i, c := range rec {
			if strings.Contains(c, "\x00") || r.cfg.Columns && strings.Contains(c, unit) {
				return f, false
			}
			cols[i] = strings.Clone(c)
		}
		f.records = append(f.records, cols)
	}
	return f, true
}

// spill moves to a file what is kept.
func (r *rerun) spill() {
	if !r.open() {
		return
	}
	if r.header != nil {
		r.write([][]string{r.header})
	}
	for _, f := range r.kept {
		r.write(f.records)
	}
	r.kept = nil
}

// fit is fits for all records of a task.
func (r *rerun) fit(records [][]string) bool {
	ok := true
	for _, cols := range records {
		ok = r.fits(cols) && ok
	}
	return ok
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

func (r *rerun) write(records [][]string) {
	end := cmp.Or(r.cfg.Stdin, "\x00")
	for _, cols := range records {
		r.w.WriteString(strings.Join(cols, unit))
		r.w.WriteString(end)
	}
}

// open makes the file on first need.
func (r *rerun) open() bool {
	if r.file != nil {
		return true
	}
	name := "crew-failed-*.nul"
	switch {
	case r.cfg.JSON:
		name = "crew-failed-*.json"
	case r.cfg.Stdin != "" && r.cfg.Stdin != "\x00":
		name = "crew-failed-*.txt"
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
	options, values := "", ""
	switch {
	case r.listed == 0:
		r.drop()
	case r.file != nil:
		options = "-a " + task.Quote(r.file.Name())
		r.write(r.short)
		r.close()
	default:
		values = r.values()
	}
	switch {
	case r.cfg.JSON:
		options = "--input json " + options
	case r.cfg.Stdin != "": // the line says what ends them
	case r.file != nil && r.cfg.Columns:
		options = `-0 -C '\x1f' ` + options
	case r.file != nil:
		options = "-0 " + options
	}
	if r.err != nil {
		return "crew: no line to run them again, as their records cannot be kept: " + harmless(r.err.Error()) + "\n"
	}
	s := ""
	if r.listed > 0 {
		s = "crew: run them again: " + r.cfg.Line(options, values) + "\n"
	}
	if r.left > 0 {
		s += fmt.Sprintf("crew: %s cannot be run again from a list\n", count(int64(r.left), "failed task"))
	}
	if r.unlike > 0 {
		how := "with --state, --retry-failed"
		if r.cfg.State {
			how = "--retry-failed"
		}
		s += fmt.Sprintf("crew: %s cannot be run again from a list, where %s; %s runs them again\n",
			count(int64(r.unlike), "failed task"), r.why, how)
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
	slices.SortFunc(r.kept, func(a, b failure) int { return cmp.Compare(a.id, b.id) })
	var rows [][]string
	if r.header != nil {
		rows = append(rows, r.header)
	}
	for _, f := range r.kept {
		rows = append(rows, f.records...)
	}
	rows = append(rows, r.short...)
	if len(rows) == 0 {
		return ""
	}
	widest := slices.MaxFunc(rows, func(a, b []string) int { return len(a) - len(b) })
	var b strings.Builder
	for c := range widest {
		if c > 0 {
			b.WriteString(" :::+")
		} else {
			b.WriteString(":::")
		}
		for _, row := range rows {
			v := ""
			if c < len(row) {
				v = row[c]
			}
			b.WriteString(" " + task.Quote(v))
		}
	}
	return b.String()
}
