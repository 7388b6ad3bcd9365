package sink

import (
	"bufio"
	"cmp"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

const (
	rerunLine = 2 << 10 // bytes of the line beyond which the records go to a file
	unit      = "\x1f"  // between the columns of a record in the file (ASCII unit separator)
)

// RerunConfig says how the line that runs again what has no success is spelt. Its
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
	// WhyChanged returns why a task would change if it were listed ("{#} would be
	// another number"), or "". Nil if none would.
	WhyChanged func(t *task.Task) string
	// ReadMore calls list with the tasks that the run would have read after the one with a
	// number, as far as they can be had at once, and returns the number of the last one. all
	// reports whether no other would have followed. Nil if there is only what was read.
	ReadMore func(id uint64, list func(*task.Task)) (last uint64, all bool)
	// Unread says from where on the input was not read after the task with a number, or from
	// a byte on if it is cut into blocks, and how to run what is there. It returns "" if nothing
	// is. Nil if that is never said.
	Unread func(id uint64, at int64) string
	// State says that the run keeps a journal, so --retry-failed knows what has failed, and
	// there is no need for a file.
	State bool
	// SameCommand says that the same command runs again what has failed, and nothing else.
	SameCommand bool
	RerunRecords
}

// RerunRecords says what the records of tasks are like.
type RerunRecords struct {
	// Batch is how many records a task takes if there are enough (-n). 0: a task may
	// have any number. math.MaxInt: list at most one task.
	Batch int
	// Columns says that a record can have more than one column, each given by itself.
	Columns bool
	// StdinEnd is what ends each record if tasks read them (--stdin, --worker), else empty. Then
	// -0 or -d stays in the line. Without Columns records are run again as they were
	// read, so -C and --csv stay in the line, too.
	StdinEnd string
	// CommandLines says that the records are the tasks' own command lines.
	CommandLines bool
	// JSON says that the records are JSON objects (--input json).
	JSON bool
}

// rerun lists the records of tasks without success: in memory while they fit into one line
// that a person can copy, else in a file, so memory stays bounded. The line has
// them in input order, the file mostly in the order in which the tasks ended.
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
	file  *listFile
	w     *bufio.Writer // on file; keeps its first error
	err   error         // why there is no file

	listed int64
	left   int64  // tasks that cannot be listed
	bad    int64  // tasks that cannot be run at all, because of their records
	unlike int64  // tasks that would change
	why    string // how they would change
	last   uint64 // the number of the last task that was read
	at     int64  // the byte after its block
}

// read notes that a task was read.
func (r *rerun) read(t *task.Task) {
	if r.last = t.ID; t.Block != nil {
		r.at = t.Block.Off + int64(len(t.Block.Text)) + t.Block.Len
	}
}

// failure is a task as it is listed.
type failure struct {
	id      uint64
	records [][]string
}

// add lists a task.
func (r *rerun) add(t *task.Task) {
	if r.cfg.Line == nil || r.err != nil {
		return
	}
	if t.Err != nil {
		r.bad++
		return
	}
	if r.cfg.WhyChanged != nil {
		if why := r.cfg.WhyChanged(t); why != "" {
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
	if !fits && (r.cfg.State || r.cfg.StdinEnd != "" && r.cfg.Columns) {
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
	switch sep := r.cfg.StdinEnd; {
	case r.cfg.JSON:
		return [][]string{{t.Object}}, t.Object != "" && !strings.Contains(t.Object, "\n")
	case len(t.Records) == 0:
		return nil, false
	case r.cfg.CommandLines:
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

// format returns the options that read the file, and what ends a record there.
func (c *RerunConfig) format() (options, end string) {
	switch {
	case c.JSON:
		return "-a ", "\n"
	case c.StdinEnd != "": // the line has the option for it
		return "-a ", c.StdinEnd
	case c.Columns:
		return `-0 -C '\x1f' -a `, "\x00"
	}
	return "-0 -a ", "\x00"
}

// write moves the listed tasks to the file.
func (r *rerun) write() {
	_, end := r.cfg.format()
	for _, f := range r.kept {
		for _, cols := range f.records {
			r.w.WriteString(strings.Join(cols, unit) + end)
		}
	}
	r.kept = nil
}

// open creates the file.
func (r *rerun) open() bool {
	if r.file, r.err = createList(); r.err != nil {
		return false
	}
	r.w = bufio.NewWriter(r.file)
	return true
}

// give lists nothing after all, since tasks would change for a reason.
func (r *rerun) give(why string) {
	r.drop()
	r.unlike, r.why = r.unlike+r.listed+r.left, why
	r.listed, r.left, r.file, r.kept, r.short = 0, 0, nil, nil, nil
}

// rest returns the digest's line on what was not read, and lists it if that can be read at once.
func (r *rerun) rest() string {
	if r.cfg.ReadMore != nil {
		all := false
		if r.last, all = r.cfg.ReadMore(r.last, r.add); all {
			return ""
		}
	}
	if r.cfg.Unread == nil {
		return ""
	}
	if line := r.cfg.Unread(r.last, r.at); line != "" {
		return "crew: " + line + "\n"
	}
	return ""
}

// text returns the digest's lines on how to run the listed tasks again.
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
		options, _ = r.cfg.format()
		options += task.Quote(r.file.path)
	}
	if r.err != nil {
		return "crew: no line to run them again, as their records cannot be kept: " + task.Printable(r.err.Error()) + "\n"
	}
	if r.listed > 0 {
		s = "crew: run " + them(r.listed) + " again: " + r.cfg.Line(options, values) + "\n"
	}
	s += r.cannot(r.left, "")
	if r.bad > 0 {
		s += fmt.Sprintf("crew: %s cannot be run as the records are: mend %s, and give %[2]s again\n", task.Count(r.bad, "task"), them(r.bad))
	}
	return s + r.cannot(r.unlike, ", where "+r.why)
}

// cannot says that no list has some tasks, if there are any, and what runs them again all the same.
func (r *rerun) cannot(n int64, why string) string {
	if n == 0 {
		return ""
	}
	how := "run all again, with --state DIR, where --retry-failed can run such tasks alone"
	switch {
	case r.cfg.State:
		how = "the same command with --retry-failed runs " + them(n) + " again"
	case r.cfg.SameCommand:
		how = "the same command runs " + them(n) + " again"
	}
	return fmt.Sprintf("crew: %s cannot be run again from a list%s: %s\n", task.Count(n, "task"), why, how)
}

func them(n int64) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// drop removes the file, since nobody is told about it.
func (r *rerun) drop() {
	if r.file != nil {
		r.file.Close()
		os.Remove(r.file.path)
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
