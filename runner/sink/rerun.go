package sink

import (
	"bufio"
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"crew/runner/task"
)

const (
	rerunLine  = 2 << 10        // bytes of the line beyond which the records go to a file
	unit       = "\x1f"         // between the columns of a record in the file (ASCII unit separator)
	failedName = "crew-failed-" // the names of such files begin so; then comes the time
	keptFailed = 20             // how many of them stay in a directory
)

// RerunConfig says how the line that runs the failed tasks again is spelt. Its
// functions are called by Consume and Close.
type RerunConfig struct {
	// Line returns the whole command line, quoted for a shell, without the options that
	// read and cut the records of this run. options name the source of records ("-0 -a
	// FILE") and go among the other options; values (":::" and what follows) go at the end.
	// Both are empty if only the length is asked for. If Line is nil, no line is shown.
	Line func(options, values string) string
	// Header returns the names of the columns, once a task has failed. Nil without --header,
	// which stays in the line.
	Header func() []string
	// Unlike returns why a task would change if it were listed ("{#} would be
	// another number"), or "". Nil if none would.
	Unlike func(t *task.Task) string
	// Dir returns the directory for the file of records that do not fit into the
	// line. If it is nil or returns "", that is a temporary file.
	Dir func() string
	// Batch is how many records a task takes if there are enough (-n). 0: a task may
	// have any number. math.MaxInt: list at most one task.
	Batch int
	// State says that the run keeps a journal, so --retry-failed knows what has failed.
	State bool
	// Same says that the same command runs again what has failed, and nothing else.
	Same bool
	RerunRecords
}

// RerunRecords says what the records of failed tasks are like.
type RerunRecords struct {
	// Columns says that a record can have more than one column, each given by itself.
	Columns bool
	// Stdin is what ends each record if tasks read them (--stdin, --worker), else empty. Then
	// -0 or -d stays in the line. Without Columns records are run again as they were
	// read, so -C and --csv stay in the line, too.
	Stdin string
	// Whole says that the records are the failed tasks' own command lines. All else but Line
	// and Dir is then zero.
	Whole bool
	// JSON says that tasks come from JSON objects (--input json), and go to a file as such.
	JSON bool
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

	size  int        // bytes of the line so far; 0 before the first task
	width int        // columns of each record in the line
	kept  []failure  // listed tasks that are not in the file, and as task 0 the names of columns
	short [][]string // records of the one task that has fewer; they go last
	file  *os.File
	w     *bufio.Writer // on file; keeps its first error
	err   error         // why there is no file

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
	if r.size == 0 {
		r.size = len(r.cfg.Line("", "")) + len(" :::")
		if names := r.header(); names != nil && !r.list(failure{0, [][]string{names}}) {
			r.size = rerunLine // nothing fits any more
		}
	}
	if records, ok := r.records(t); ok && r.list(failure{t.ID, records}) {
		r.listed++
	} else {
		r.left++
	}
}

// list puts a task into the line or the file. It reports false if neither can hold it. The
// file cannot if tasks would read what separates columns there.
func (r *rerun) list(f failure) bool {
	short := f.id > 0 && len(f.records) < r.cfg.Batch
	if short && r.short != nil {
		return false
	}
	fits := r.file == nil && r.fits(f.records)
	if !fits && r.cfg.Stdin != "" && r.cfg.Columns {
		return false
	}
	if short {
		r.short = f.records
	} else {
		r.kept = append(r.kept, f)
	}
	if !fits && (r.file != nil || r.open()) {
		r.write()
	}
	return true
}

func (r *rerun) header() []string {
	if r.cfg.Header == nil {
		return nil
	}
	return r.cfg.Header()
}

// records returns copies of what has to be listed for a task. ok is false if no
// list can hold that.
func (r *rerun) records(t *task.Task) (records [][]string, ok bool) {
	switch sep := r.cfg.Stdin; {
	case r.cfg.JSON:
		return [][]string{{t.Object}}, t.Err == nil && t.Object != "" && !strings.Contains(t.Object, "\n")
	case t.Err != nil || len(t.Records) == 0:
		return nil, false
	case r.cfg.Whole:
		line := "exec " + t.CommandLine(t.Argv) // the program, and no built-in of that name
		if t.Shell {
			line = strings.Clone(t.CommandLine(t.Argv))
		}
		return [][]string{{line}}, !t.Varies() && !strings.HasPrefix(line, "#")
	case sep != "" && !r.cfg.Columns:
		text := string(t.Stdin)
		if t.Protocol != task.NoProtocol {
			text += sep
		}
		text, whole := strings.CutSuffix(text, sep)
		for record := range strings.SplitSeq(text, sep) {
			records = append(records, []string{record})
		}
		// A record may contain sep, and columns of a header cannot be put together
		// again.
		return records, whole && len(records) == len(t.Records) && len(r.header()) <= 1
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
// line cannot hold objects, records that make it too long or differ in their number of
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
	if r.cfg.JSON || size > rerunLine {
		return false
	}
	r.size = size
	return true
}

// format returns the options that read the file, what ends a record there, and how its
// name ends.
func (c *RerunConfig) format() (options, end, extension string) {
	switch {
	case c.JSON:
		return "--input json -a ", "\n", ".json"
	// The line has the option for the separator of records that tasks read.
	case c.Stdin == "\x00":
		return "-a ", "\x00", ".nul"
	case c.Stdin != "":
		return "-a ", c.Stdin, ".txt"
	case c.Columns:
		return `-0 -C '\x1f' -a `, "\x00", ".nul"
	}
	return "-0 -a ", "\x00", ".nul"
}

// write moves the listed tasks to the file.
func (r *rerun) write() {
	_, end, _ := r.cfg.format()
	for _, f := range r.kept {
		for _, cols := range f.records {
			r.w.WriteString(strings.Join(cols, unit) + end)
		}
	}
	r.kept = nil
}

// open creates the file, in the directory for it or else as a temporary one. Of such files,
// which only the user can read, that directory keeps the latest.
func (r *rerun) open() bool {
	dir := ""
	if r.cfg.Dir != nil {
		dir = r.cfg.Dir()
	}
	_, _, extension := r.cfg.format()
	pattern := failedName + time.Now().UTC().Format("20060102T150405Z") + "-*" + extension
	if dir != "" && os.MkdirAll(dir, 0o700) == nil {
		r.file, _ = os.CreateTemp(dir, pattern)
	}
	if r.file != nil {
		names, _ := fs.Glob(os.DirFS(dir), failedName+"*") // in their order
		for _, name := range names[:max(0, len(names)-keptFailed)] {
			_ = os.Remove(filepath.Join(dir, name))
		}
	} else if r.file, r.err = os.CreateTemp("", pattern); r.err != nil {
		return false
	}
	r.w = bufio.NewWriter(r.file)
	return true
}

// text returns the digest's lines on how to run the failed tasks again.
func (r *rerun) text() (s string) {
	r.kept = append(r.kept, failure{math.MaxUint64, r.short})
	options, values := "", ""
	switch {
	case r.listed == 0:
		r.drop()
	case r.err != nil:
	case r.file == nil:
		values = r.values()
	default:
		r.write()
		if r.err = cmp.Or(r.w.Flush(), r.file.Close()); r.err != nil {
			r.drop()
		}
		options, _, _ = r.cfg.format()
		options += task.Quote(r.file.Name())
	}
	if r.err != nil {
		return "crew: no line to run them again, as their records cannot be kept: " + task.Printable(r.err.Error()) + "\n"
	}
	if r.listed > 0 {
		them := "them"
		if r.listed == 1 {
			them = "it"
		}
		s = "crew: run " + them + " again: " + r.cfg.Line(options, values) + "\n"
	}
	if r.left > 0 {
		s += fmt.Sprintf("crew: %s cannot be run again from a list\n", task.Count(r.left, "failed task"))
	}
	if r.unlike > 0 {
		how := "with --state, --retry-failed"
		switch {
		case r.cfg.State:
			how = "--retry-failed"
		case r.cfg.Same:
			how = "the same command"
		}
		s += fmt.Sprintf("crew: %s cannot be run again from a list, where %s; %s runs them again\n",
			task.Count(r.unlike, "failed task"), r.why, how)
	}
	return s
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
func (r *rerun) values() (line string) {
	slices.SortFunc(r.kept, func(a, b failure) int { return cmp.Compare(a.id, b.id) })
	sep := ":::"
	for c := range r.width {
		line += sep
		sep = " :::+"
		for _, f := range r.kept {
			for _, columns := range f.records {
				line += " " + task.Quote(columns[c])
			}
		}
	}
	return line
}
