package sink

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"crew/runner/task"
)

const (
	rerunLine = 2 << 10 // bytes of the line beyond which the records go to a file
	unit      = "\x1f"  // between the columns of a record in the file (ASCII unit separator)
)

// RerunConfig says how the line that runs the failed tasks again is spelt. Its
// functions are called by Consume and Close.
type RerunConfig struct {
	// Line returns the whole command line, quoted for a shell. options name the
	// source of records ("-0 -a FILE") and go among the other options; values
	// (":::" and what follows) go at the end. Both are empty if only the length is
	// asked for. The line omits the options that read and cut the records of this run
	// (-a, -0, -d, -C, --csv, --input, -E), but keeps --header and what Stdin
	// mentions. If Line is nil, no line is shown.
	Line func(options, values string) string
	// Header returns the names of the columns. It is called after the first task
	// has failed. Nil without --header.
	Header func() []string
	// Columns says that a record can have more than one column, each given by
	// itself.
	Columns bool
	// Batch is how many records a task takes if there are enough (-n). 0: a task may
	// have any number. math.MaxInt: list at most one task.
	Batch int
	// Stdin is what ends each record if tasks read them (--stdin, --worker), else empty. Then
	// -0 or -d stays in the line. Without Columns records are run again as they were
	// read, so -C and --csv stay in the line, too.
	Stdin string
	// Unlike returns why a task would change if it were listed ("{#} would be
	// another number"), or "". Nil if none would.
	Unlike func(t *task.Task) string
	// Whole says that the records of the line are the failed tasks' own command
	// lines. All other fields but Line are then zero.
	Whole bool
	// JSON says that tasks come from JSON objects (--input json). They are run again
	// from a file of those objects.
	JSON bool
	// Dir returns the directory for the file of records that do not fit into the
	// line. If it is nil or returns "", that is a temporary file.
	Dir func() string
	// State says that the run keeps a journal, so --retry-failed knows what has
	// failed.
	State bool
}

// rerun lists the records of failed tasks: in memory while they fit into one line
// that a person can copy, else in a file, so memory stays bounded. The line has
// them in input order, the file mostly in order of failure.
//
// The file holds NUL-terminated records, with columns separated by one control
// byte. It is not JSON, because columns are bytes and JSON has only text. If tasks
// read their records, those end as they did in the input.
//
// Records of one task stay together, since a command may depend on their
// positions. The next run cuts the list into tasks by number alone, so only the
// last task listed may have fewer records than the others.
type rerun struct {
	cfg RerunConfig

	size   int        // bytes of the line so far; 0 before the first task
	header []string   // names of columns, if any
	width  int        // columns of each record in the line
	kept   []failure  // listed tasks, unless they are in the file
	short  [][]string // records of the one task that has fewer; they go last
	file   *os.File
	w      *bufio.Writer // on file; keeps its first error
	err    error         // why there is no file

	listed int
	left   int64  // failed tasks that cannot be listed
	unlike int64  // failed tasks that would change
	why    string // how they would change
}

// failure is a failed task as it is listed.
type failure struct {
	id      uint64
	records [][]string
}

// add lists a failed task.
func (r *rerun) add(t *task.Task) {
	if r.cfg.Line == nil || r.err != nil {
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
		if t.Err != nil || t.Object == "" || strings.Contains(t.Object, "\n") {
			r.left++
		} else if r.listed++; r.open() {
			r.w.WriteString(t.Object + "\n")
		}
		return
	}
	if r.size == 0 {
		r.begin()
	}
	records, ok := r.records(t)
	short := len(records) < r.cfg.Batch
	fits := ok && r.fits(records)
	if !ok || short && r.short != nil || !fits && r.lineOnly() {
		r.left++
		return
	}
	r.listed++
	switch {
	case short:
		r.short = records
	case r.file == nil:
		r.kept = append(r.kept, failure{t.ID, records})
	default:
		r.write(records)
	}
	if !fits && r.file == nil {
		r.spill()
	}
}

// begin counts the parts of the line before the first record.
func (r *rerun) begin() {
	r.size = len(r.cfg.Line("", "")) + len(" :::")
	if r.cfg.Header == nil {
		return
	}
	r.header = r.cfg.Header()
	switch {
	case r.fits([][]string{r.header}):
	case r.lineOnly():
		r.size = rerunLine + 1 // nothing fits any more
	default:
		r.spill()
	}
}

// lineOnly reports whether the records cannot be put into a file, because tasks
// would read the separators of columns.
func (r *rerun) lineOnly() bool { return r.cfg.Stdin != "" && r.cfg.Columns }

// records returns copies of what has to be listed for a task. ok is false if no
// list can hold that.
func (r *rerun) records(t *task.Task) (records [][]string, ok bool) {
	if t.Err != nil || len(t.Records) == 0 {
		return nil, false
	}
	if r.cfg.Whole {
		line := t.CommandLine(t.Argv)
		if t.Shell {
			line = strings.Clone(line)
		} else {
			line = "exec " + line // the program, and no built-in of that name
		}
		return [][]string{{line}}, !t.Varies() && !strings.HasPrefix(line, "#")
	}
	if sep := r.cfg.Stdin; sep != "" && !r.cfg.Columns {
		text := string(t.Stdin)
		if t.Protocol != task.NoProtocol {
			text += sep
		}
		texts := strings.Split(text, sep)
		last := len(texts) - 1
		for _, text := range texts[:last] {
			records = append(records, []string{text})
		}
		// A record may contain sep, and columns of a header cannot be put together
		// again.
		return records, last == len(t.Records) && texts[last] == "" && len(r.header) <= 1
	}
	for _, rec := range t.Records {
		cols := make([]string, len(rec))
		for i, c := range rec {
			if strings.Contains(c, "\x00") || r.cfg.Columns && strings.Contains(c, unit) {
				return nil, false
			}
			cols[i] = strings.Clone(c) // c may be part of a large buffer
		}
		records = append(records, cols)
	}
	return records, true
}

// fits reports whether the line has room for records, and counts them if so. The
// line cannot hold records that make it too long or differ in their number of
// columns, a value that looks like a separator of sources, or one that cannot be
// copied from a terminal.
func (r *rerun) fits(records [][]string) bool {
	size := r.size
	for _, cols := range records {
		r.width = cmp.Or(r.width, len(cols))
		if len(cols) == 0 || len(cols) != r.width {
			return false
		}
		for _, c := range cols {
			size += len(task.Quote(c)) + 1
			if slices.Contains([]string{":::", ":::+", "::::", "::::+"}, c) ||
				strings.Contains(c, "\t") || task.Printable(c) != c {
				return false
			}
		}
	}
	if size > rerunLine {
		return false
	}
	r.size = size
	return true
}

// spill moves the listed records to a file.
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

func (r *rerun) write(records [][]string) {
	for _, cols := range records {
		r.w.WriteString(strings.Join(cols, unit))
		r.w.WriteString(cmp.Or(r.cfg.Stdin, "\x00"))
	}
}

// open creates the file if there is none yet.
func (r *rerun) open() bool {
	if r.file != nil {
		return true
	}
	extension := ".nul"
	switch {
	case r.cfg.JSON:
		extension = ".json"
	case r.cfg.Stdin != "" && r.cfg.Stdin != "\x00":
		extension = ".txt"
	}
	dir := ""
	if r.cfg.Dir != nil {
		dir = r.cfg.Dir()
	}
	f, err := createFailed(dir, extension)
	if err != nil {
		r.err = err
		return false
	}
	r.file, r.w = f, bufio.NewWriter(f)
	return true
}

// text returns the digest's lines on how to run the failed tasks again.
func (r *rerun) text() string {
	them, options, values := "them", "", ""
	if r.listed == 1 {
		them = "it"
	}
	switch {
	case r.listed == 0:
		r.drop()
	case r.file != nil:
		options = r.finish()
	case r.err == nil:
		values = r.values()
	}
	if r.err != nil {
		return "crew: no line to run them again, as their records cannot be kept: " + task.Printable(r.err.Error()) + "\n"
	}
	s := ""
	if r.listed > 0 {
		s = "crew: run " + them + " again: " + r.cfg.Line(options, values) + "\n"
	}
	if r.left > 0 {
		s += fmt.Sprintf("crew: %s cannot be run again from a list\n", task.Count(r.left, "failed task"))
	}
	if r.unlike > 0 {
		how := "with --state, --retry-failed"
		if r.cfg.State {
			how = "--retry-failed"
		}
		s += fmt.Sprintf("crew: %s cannot be run again from a list, where %s; %s runs them again\n",
			task.Count(r.unlike, "failed task"), r.why, how)
	}
	return s
}

// finish completes the file, or removes it if that fails, and returns the options
// to read it.
func (r *rerun) finish() string {
	r.write(r.short)
	if r.err = cmp.Or(r.w.Flush(), r.file.Close()); r.err != nil {
		os.Remove(r.file.Name())
	}
	options := "-a " + task.Quote(r.file.Name())
	switch {
	case r.cfg.JSON:
		return "--input json " + options
	case r.cfg.Stdin != "": // the line has the option for the separator
		return options
	case r.cfg.Columns:
		return `-0 -C '\x1f' ` + options
	}
	return "-0 " + options
}

// drop removes the file, since nobody is told about it.
func (r *rerun) drop() {
	if r.file != nil {
		r.file.Close()
		os.Remove(r.file.Name())
	}
}

// values returns the records as linked sources, one for each column:
// ::: a b :::+ c d.
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
	var b strings.Builder
	sep := ":::"
	for c := range r.width {
		b.WriteString(sep)
		sep = " :::+"
		for _, row := range rows {
			b.WriteString(" " + task.Quote(row[c]))
		}
	}
	return b.String()
}
