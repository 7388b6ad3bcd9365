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
	maxRerunLine    = 2 << 10 // maximum length of the line; longer ones use a file
	columnSeparator = "\x1f"  // separates columns in the file (ASCII unit separator)
)

// RerunConfig says how to write the command line that runs the failed tasks again. Its functions
// are called by Consume and Close.
type RerunConfig struct {
	// Line returns the whole command line, quoted for a shell, without the options that read and
	// split this run's records. options ("-0 -a FILE") name the source of the records and go among
	// the other options. values begins with ":::" and goes to the end. Both are empty when only the
	// length is needed. If Line is nil, no line is shown.
	Line func(options, values string) string
	// Header returns the column names once a task has failed. They are listed first, because
	// --header stays in the line. It is nil without --header.
	Header func() []string
	// WhyChanged returns why a task would be different if it was listed ("{#} would be another
	// number"), or "". It may be nil.
	WhyChanged func(t *task.Task) string
	// ReadMore calls list with the tasks that follow task id in the input, as far as they are
	// available at once, and returns the number of the last one. all reports that there are no
	// others. It may be nil.
	ReadMore func(id uint64, list func(*task.Task)) (last uint64, all bool)
	// Unread says which part of the input after task id was not read, or the part from byte at if
	// the input is split into blocks, and how to run it. It returns "" if nothing is left. It may
	// be nil.
	Unread func(id uint64, at int64) string
	// State means that the run has a journal, so --retry-failed knows the failed tasks and no file
	// is needed.
	State bool
	// SameCommand means that the same command runs exactly the failed tasks again.
	SameCommand bool
	RerunRecords
}

// RerunRecords describes the records of tasks.
type RerunRecords struct {
	// Batch is the number of records per task (-n), of which only the last task may have fewer. 0:
	// a task may have any number. math.MaxInt: list at most one task.
	Batch int
	// Columns means that records may have several columns, and each column is listed as a value.
	Columns bool
	// StdinEnd ends each record if tasks read them from stdin (--stdin, --worker); otherwise it is
	// empty. If it is set, -0 or -d stays in the line. If Columns is not set, records are listed
	// unsplit, so -C and --csv also stay in the line.
	StdinEnd string
	// CommandLines means that each record is the command line of a task.
	CommandLines bool
	// JSON means that records are JSON objects (--input json).
	JSON bool
}

// rerun lists the records of tasks that did not succeed: in memory while they fit into a line that a
// person can copy, otherwise in a file, so that memory is bounded. The line has them in input
// order, the file mostly in the order in which the tasks ended.
//
// The file contains NUL-terminated records, with columns separated by a control character. It is
// not JSON, because columns are bytes and JSON has only text. If tasks read their records, each
// record ends as in the input.
//
// The records of a task stay together, because a command may depend on their positions. The next
// run groups records by number alone, so only the last task in the list may have fewer than the
// others.
type rerun struct {
	cfg RerunConfig

	size         int          // length of the line so far; 0 before the first task
	columns      int          // columns of each record in the line
	inMemory     []listedTask // listed tasks that are not in the file; task 0 is the header
	shortRecords [][]string   // records of the one task that has fewer; they go last
	file         *os.File
	w            *bufio.Writer // writes to file; keeps its first error
	err          error         // why there is no file

	listed      int64
	unlisted    int64  // tasks that cannot be listed
	badRecords  int64  // tasks that cannot run because of their records
	wouldChange int64  // tasks that a list would change
	whyChange   string // why, for one of them
	lastRead    uint64 // number of the last task that was read
	readEnd     int64  // offset after its block
}

// noteRead notes that t was read.
func (r *rerun) noteRead(t *task.Task) {
	if r.lastRead = t.ID; t.Block != nil {
		r.readEnd = t.Block.Off + int64(len(t.Block.Text)) + t.Block.Len
	}
}

// listedTask is a task in the list.
type listedTask struct {
	id      uint64
	records [][]string
}

// add lists a task.
func (r *rerun) add(t *task.Task) {
	if r.cfg.Line == nil || r.err != nil {
		return
	}
	if t.Err != nil {
		r.badRecords++
		return
	}
	if r.cfg.WhyChanged != nil {
		if why := r.cfg.WhyChanged(t); why != "" {
			r.wouldChange++
			r.whyChange = why
			return
		}
	}
	if r.size == 0 {
		r.size = len(r.cfg.Line("", "")) + len(" :::")
		if names := r.header(); names != nil && !r.place(listedTask{0, [][]string{names}}) {
			r.size = maxRerunLine // nothing fits any more
		}
	}
	if records, ok := r.records(t); ok && r.place(listedTask{t.ID, records}) {
		r.listed++
	} else {
		r.unlisted++
	}
}

// place puts a task into the line or the file. It returns false if neither can hold it. The file
// cannot if tasks would read the column separator.
func (r *rerun) place(f listedTask) bool {
	short := f.id > 0 && len(f.records) < r.cfg.Batch
	if short && r.shortRecords != nil {
		return false
	}
	fits := r.file == nil && r.fits(f.records)
	if !fits && (r.cfg.State || r.cfg.StdinEnd != "" && r.cfg.Columns) {
		return false
	}
	if short {
		r.shortRecords = f.records
	} else {
		r.inMemory = append(r.inMemory, f)
	}
	if !fits && (r.file != nil || r.openFile()) {
		r.flushToFile()
	}
	return true
}

func (r *rerun) header() []string {
	if r.cfg.Header == nil {
		return nil
	}
	return r.cfg.Header()
}

// records returns copies of the records to list for a task. ok is false if no list can hold them.
func (r *rerun) records(t *task.Task) (records [][]string, ok bool) {
	switch sep := r.cfg.StdinEnd; {
	case r.cfg.JSON:
		return [][]string{{t.Object}}, t.Object != "" && !strings.Contains(t.Object, "\n")
	case len(t.Records) == 0:
		return nil, false
	case r.cfg.CommandLines:
		line := "exec " + t.CommandLine(t.Argv) // exec runs the program, not a built-in of that name
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
		// A record may contain sep, and columns with a header cannot be joined again.
		return records, whole && len(records) == len(t.Records) && len(r.header()) <= 1
	}
	for _, rec := range t.Records {
		cols := make([]string, len(rec))
		for i, c := range rec {
			if strings.Contains(c, "\x00") || r.cfg.Columns && strings.Contains(c, columnSeparator) {
				return nil, false
			}
			cols[i] = strings.Clone(c) // c may be part of a large buffer
		}
		records = append(records, cols)
	}
	return records, true
}

// fits reports whether the line has room for records, and adds their length if so. The line cannot
// hold too many bytes, records with different numbers of columns, values that look like ::: or its
// variants, or values that cannot be copied from a terminal.
func (r *rerun) fits(records [][]string) bool {
	size := r.size
	for _, cols := range records {
		r.columns = cmp.Or(r.columns, len(cols))
		if len(cols) == 0 || len(cols) != r.columns {
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
	if size > maxRerunLine {
		return false
	}
	r.size = size
	return true
}

// format returns the options that read the file, and the end of a record in it.
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

// flushToFile moves the listed tasks to the file.
func (r *rerun) flushToFile() {
	_, end := r.cfg.format()
	for _, f := range r.inMemory {
		for _, cols := range f.records {
			r.w.WriteString(strings.Join(cols, columnSeparator) + end)
		}
	}
	r.inMemory = nil
}

// openFile creates the file.
func (r *rerun) openFile() bool {
	if r.file, r.err = createList(); r.err != nil {
		return false
	}
	r.w = bufio.NewWriter(r.file)
	return true
}

// discardAll empties the list, because none of its tasks can run from a list for the given reason.
func (r *rerun) discardAll(why string) {
	r.wouldChange, r.whyChange = r.wouldChange+r.listed+r.unlisted, why
	r.listed, r.unlisted = 0, 0
}

// unreadLine returns a line about unread input. It lists the unread tasks instead if they can be
// read at once.
func (r *rerun) unreadLine() string {
	if r.cfg.ReadMore != nil {
		all := false
		if r.lastRead, all = r.cfg.ReadMore(r.lastRead, r.add); all {
			return ""
		}
	}
	if r.cfg.Unread == nil {
		return ""
	}
	if line := r.cfg.Unread(r.lastRead, r.readEnd); line != "" {
		return "crew: " + line + "\n"
	}
	return ""
}

// lines returns the lines about how to run the listed tasks again.
func (r *rerun) lines() (s string) {
	r.inMemory = append(r.inMemory, listedTask{math.MaxUint64, r.shortRecords})
	options, values := "", ""
	if r.cfg.State && r.unlisted > 0 { // one command runs all of them
		r.unlisted, r.listed = r.unlisted+r.listed, 0
	}
	switch {
	case r.listed == 0:
		r.removeFile()
	case r.err != nil:
	case r.file == nil:
		values = r.values()
	default:
		r.flushToFile()
		if r.err = cmp.Or(r.w.Flush(), r.file.Close()); r.err != nil {
			r.removeFile()
		}
		options, _ = r.cfg.format()
		options += task.Quote(r.file.Name())
	}
	if r.err != nil {
		return "crew: no command to run them again, because their records cannot be saved: " + task.Printable(r.err.Error()) + "\n"
	}
	if r.listed > 0 {
		s = "crew: run " + them(r.listed) + " again: " + r.cfg.Line(options, values) + "\n"
	}
	s += r.unlistedLine(r.unlisted, "")
	if r.badRecords > 0 {
		s += fmt.Sprintf("crew: %s cannot be run with the given records: fix the records and run %s again\n", task.Count(r.badRecords, "task"), them(r.badRecords))
	}
	return s + r.unlistedLine(r.wouldChange, ", because "+r.whyChange)
}

// unlistedLine returns a line about n tasks that are not in the list, and another way to run them,
// or "".
func (r *rerun) unlistedLine(n int64, why string) string {
	if n == 0 {
		return ""
	}
	how, again := "run all tasks again with --state DIR, so that --retry-failed can run only the failed ones", " runs "+them(n)+" again"
	switch {
	case r.cfg.State:
		if how = "the same command with --retry-failed" + again; why == "" {
			return "crew: " + how + "\n"
		}
	case r.cfg.SameCommand:
		how = "the same command" + again
	}
	return fmt.Sprintf("crew: %s cannot be run again from a list%s: %s\n", task.Count(n, "task"), why, how)
}

func them(n int64) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// removeFile removes the file, if there is one. Call it if its name is not shown to the user.
func (r *rerun) removeFile() {
	if r.file != nil {
		r.file.Close()
		os.Remove(r.file.Name())
	}
}

// values returns the records as linked sources, one per column: ::: a b :::+ c d.
func (r *rerun) values() (line string) {
	slices.SortFunc(r.inMemory, func(a, b listedTask) int { return cmp.Compare(a.id, b.id) })
	sep := ":::"
	for c := range r.columns {
		line += sep
		sep = " :::+"
		for _, f := range r.inMemory {
			for _, columns := range f.records {
				line += " " + task.Quote(columns[c])
			}
		}
	}
	return line
}
