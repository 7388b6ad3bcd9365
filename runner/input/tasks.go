package input

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"crew/runner/expand"
	"crew/runner/task"
)

// TasksConfig says how records become tasks.
type TasksConfig struct {
	Template *expand.Template // the command; nil with JSON where the command line has none
	Command  expand.Config    // how the "command" of a JSON object is compiled; its Words are not used
	Key      *expand.Text     // nil is no key
	Cost     *expand.Text     // nil is 1
	Tag      *expand.Text     // nil is no tag
	Limits   Limits
	Stdin    bool // the task reads its records, each with its separator
}

// Limits say how many records go into one command. The zero Limits is one, of
// any size that the system takes.
type Limits struct {
	Records int // at most so many; 0 with Chars is no limit, else 1
	Chars   int // at most so many bytes of arguments, each with its NUL, as xargs counts; 0 is no limit
	ArgMax  int // at most so many bytes of arguments with their NULs and pointers, as execve counts; 0 is no limit
}

func (l Limits) batches() bool { return l.Records > 1 || l.Chars > 0 }

// Validate says what is wrong with the configuration, or nil.
func (c TasksConfig) Validate() error {
	for _, l := range []struct {
		n    int
		what string
	}{
		{c.Limits.Records, "records in a command"},
		{c.Limits.Chars, "bytes in a command"},
		{c.Limits.ArgMax, "bytes that the system takes"},
	} {
		if l.n < 0 {
			return fmt.Errorf("the number of %s is %d: it must be positive", l.what, l.n)
		}
	}
	return nil
}

// Tasks makes tasks of the records of a Reader. It is a runner.Source.
type Tasks struct {
	// configuration

	r   *Reader
	cfg TasksConfig
	sep string // after each record on a task's stdin

	// state

	latest   uint64                      // the number of the latest task
	rec      Record                      // the latest record
	held     bool                        // rec is left for the next task
	last     int                         // records in the latest batch
	empty    room                        // what a command without records occupies
	maxSize  int                         // of a batch's command; 0 is no limit
	words    words                       // of the latest record measured
	compiled map[string]*expand.Template // the commands of JSON objects
}

// NewTasks returns the tasks of what is left in r. The configuration must be
// valid, and with JSON it must not ask for several records in a command.
func NewTasks(r *Reader, cfg TasksConfig) *Tasks {
	t := &Tasks{r: r, cfg: cfg, sep: r.delimiter}
	if cfg.Limits.batches() {
		t.empty.size = cfg.Template.BaseSize()
		t.maxSize = cfg.Limits.ArgMax
		if cfg.Template.SingleWord() && (t.maxSize == 0 || t.maxSize > maxArgument) {
			t.maxSize = maxArgument
		}
	}
	return t
}

// Separator is what ends each record where tasks read them: what ends the
// records of the input, one or more bytes.
func (t *Tasks) Separator() string { return t.sep }

// Next returns the next task, which number numbers. It blocks until its records
// have been read: a batch until it is full or the input has ended. A record that
// cannot be run is a task with an Err; an error is the input's end, io.EOF or
// another. The task belongs to the caller.
func (t *Tasks) Next(number func() uint64) (*task.Task, error) {
	if t.cfg.Limits.batches() {
		return t.batch(number)
	}
	if err := t.r.read(&t.rec); err != nil {
		return nil, err
	}
	if t.rec.Object != nil {
		return t.object(&t.rec, number()), nil
	}
	return t.single(&t.rec, number(), t.rec.Err), nil
}

// single is the task of one record, with what is known to be wrong with it.
func (t *Tasks) single(rec *Record, id uint64, err error) *task.Task {
	// One allocation for the task and the slice that it needs.
	s := new(struct {
		task.Task
		records [1][]string
	})
	s.records[0] = rec.Columns
	s.ID, s.Records, s.Err = id, s.records[:], err
	if t.cfg.Stdin {
		s.Stdin = t.appendInput(nil, rec)
	}
	v := expand.Values{Records: s.Records}
	t.fill(&s.Task, &v)
	if s.Err == nil {
		t.expand(&s.Task, t.cfg.Template, v)
	}
	return &s.Task
}

// fill sets what does not depend on the task's command.
func (t *Tasks) fill(tk *task.Task, v *expand.Values) {
	t.latest, v.Seq = tk.ID, tk.ID
	tk.Cost = 1
	if t.cfg.Key != nil {
		tk.Key = t.cfg.Key.Expand(*v)
	}
	if t.cfg.Tag != nil {
		t.cfg.Tag.FillTag(tk, *v)
	}
	if t.cfg.Cost != nil && tk.Err == nil {
		tk.Cost, tk.Err = parseCost(t.cfg.Cost.Expand(*v))
	}
}

// expand sets the task's command. One that the system would not take becomes
// the task's Err.
func (t *Tasks) expand(tk *task.Task, tmpl *expand.Template, v expand.Values) {
	tmpl.Fill(tk, v)
	if tk.Err = t.fits(tk.Argv, tk); tk.Err != nil {
		tk.Argv, tk.Shell = nil, false
	}
}

// appendInput appends what a task reads of a record.
func (t *Tasks) appendInput(b []byte, rec *Record) []byte {
	if rec.Text != "" || len(rec.Columns) == 0 {
		b = append(b, rec.Text...)
	} else {
		b = append(b, strings.Join(rec.Columns, " ")...)
	}
	return append(b, t.sep...)
}

// parseCost reads a positive number, rounded up to a whole one; a larger one than
// an int64 holds counts as the largest.
func parseCost(s string) (int64, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 0 {
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || !(f > 0) || math.IsInf(f, 1) || strings.ContainsAny(s, "xX"):
		return 1, fmt.Errorf("cost %q is not a positive number", s)
	case f >= math.MaxInt64:
		return math.MaxInt64, nil
	}
	return int64(math.Ceil(f)), nil
}

// maxArgument is what Linux takes as one argument, without its NUL
// (MAX_ARG_STRLEN in linux/binfmts.h).
const maxArgument = 128<<10 - 1

const pointerSize = 8

var (
	errTooLong = errors.New("argument list too long")
	errNUL     = errors.New(`an argument holds a NUL byte, which no command can be given: write the object without \u0000, or as its "stdin"`)
)

// fits returns an error where the system, or Limits.Chars, does not take the
// command with the environment that the task adds.
func (t *Tasks) fits(argv []string, tk *task.Task) error {
	// Only here is it known that -0 would not help.
	if tk.Object != "" && slices.ContainsFunc(argv, func(w string) bool { return strings.IndexByte(w, 0) >= 0 }) {
		return errNUL
	}
	chars, over := 0, 0
	for _, w := range argv {
		over = max(over, len(w)-maxArgument)
		chars += len(w) + 1
	}
	if l := t.cfg.Limits.Chars; l > 0 {
		over = max(over, chars-l)
	}
	if l := t.cfg.Limits.ArgMax; l > 0 {
		size := chars + pointerSize*len(argv)
		for _, e := range tk.Env {
			size += len(e) + 1 + pointerSize
		}
		over = max(over, size-l)
	}
	if over == 0 {
		return nil
	}
	n := -1
	for _, cols := range tk.Records {
		for _, c := range cols {
			n += len(c) + 1
		}
	}
	unit := "bytes"
	if n == 1 {
		unit = "byte"
	}
	return fmt.Errorf("%w: record is %d %s, the limit is %d", errTooLong, n, unit, max(0, n-over))
}
