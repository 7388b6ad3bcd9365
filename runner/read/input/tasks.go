package input

import (
	"fmt"
	"slices"
	"strings"

	"crew/runner/decide/task"
	"crew/runner/read/expand"
)

// TasksConfig says how records become tasks.
type TasksConfig struct {
	Template *expand.Template // the command
	Objects  bool             // each JSON object describes a task; Template has no command
	Limits   Limits
	Stdin    bool // the task reads its records, each with its separator
	Texts

	// Share returns a function that reports, for one record after another, whether to take it; nil
	// takes all. The function gets a task made of that record alone, which has no number and waits
	// for no other task.
	Share func() func(*task.Task) bool

	Blocks *Blocks // if not nil, each task reads a block instead of records

	// Protocol says how records reach the persistent worker that Template starts. The
	// template must not depend on records, and Limits must be one record per task.
	Protocol task.Protocol
}

// Texts are templates for the properties of a task other than its command.
type Texts struct {
	Tag     *expand.Text   // nil means no tag
	Dir     *expand.Text   // working directory; nil means the run's
	Env     []*expand.Text // of the form NAME=VALUE
	Results *expand.Text   // directory for a task's results; nil if it is not needed
	Files   Files
	Travel  []*expand.Text // names of files that are copied between machines for a task
	Terms
}

// Tasks makes tasks of the records of a Reader. It implements runner.Source.
type Tasks struct {
	// configuration

	r            *Reader
	cfg          TasksConfig
	fields       []string            // the members of a JSON object that the templates use
	units        []string            // the limits whose units the templates use
	placeholders expand.Placeholders // of all templates
	worker       task.Task           // holds the command if cfg.Protocol is set

	// state

	takes       func(*task.Task) bool // nil takes all records; see TasksConfig.Share
	rec         [1]Record             // the latest record
	queue       []Record              // read, for the next batches
	queuedBytes int                   // size of the columns in queue
	sharers     int                   // with Limits.Workers, how many commands are to share queue; 0 until the input has ended
	batchID     uint64                // number of the latest batch
	batchSize   int                   // number of its records
	names       Names                 // of the tasks, with cfg.Objects
	spellings   spellings

	ends [512]place // position after each of the latest tasks, by their numbers
}

// NewTasks returns the tasks of the records that r has not returned yet. With JSON, each record must
// be a command of its own.
func NewTasks(r *Reader, cfg TasksConfig) *Tasks {
	all := slices.Clone(cfg.Template.Placeholders)
	for _, text := range append(slices.Concat(cfg.Files.texts(), cfg.Travel, cfg.Env, cfg.Templates[:]), cfg.Dir, cfg.Tag, cfg.Results) {
		if text != nil {
			all = append(all, text.Placeholders...)
		}
	}
	t := &Tasks{r: r, cfg: cfg, fields: all.Fields(), units: all.Caps(), placeholders: all, names: Names{}}
	if cfg.Protocol != task.NoProtocol {
		t.fillCommand(&t.worker, expand.Values{})
	}
	if cfg.Share != nil {
		t.takes = cfg.Share()
	}
	return t
}

// Separator returns the bytes that end each record on a task's standard input. They are the bytes
// that end the records of the input.
func (t *Tasks) Separator() string { return t.r.delimiter }

// Names returns the names of tasks: the ids of the records so far. Names that the caller defines or
// removes count for later records. The caller must not change them while Next runs.
func (t *Tasks) Names() Names { return t.names }

// Results returns the directory for a task's results. It may be called while Next
// runs.
func (t *Tasks) Results(tk *task.Task) string {
	v, _ := valuesOf(tk, tk.ID, t.cfg.Results.Fields()) // tk.Err has the error
	parts := strings.Split(t.cfg.Results.Expand(v), "/")
	for i, part := range parts {
		parts[i] = part[:min(len(part), maxName)]
	}
	return strings.Join(parts, "/")
}

// EachRecord returns the text for each record of a task, or once for all of them if it does not
// depend on the record.
func EachRecord(text *expand.Text, tk *task.Task) []string {
	v, _ := valuesOf(tk, tk.ID, text.Fields()) // tk.Err has the error
	return expandEach(text, v)
}

func valuesOf(tk *task.Task, seq uint64, fields []string) (v expand.Values, err error) {
	v.Records, v.Seq = tk.Records, seq
	if tk.Object != "" {
		var obj Object
		if obj, err = parseObject(tk.Object); err == nil {
			v.Fields, err = obj.fields(fields)
		}
	}
	return v, err
}

// maxName is the longest name that Linux's file systems accept (NAME_MAX in
// linux/limits.h).
const maxName = 255

// Next returns the next task, which gets its ID from number. It blocks until the
// task's records have been read. A record that cannot be used becomes a task with
// an Err. An error, such as io.EOF, ends the input. The caller owns the task.
func (t *Tasks) Next(number func() uint64) (*task.Task, error) {
	switch {
	case t.cfg.Blocks != nil:
		return t.nextBlock(number)
	case t.cfg.Limits.batches():
		return t.nextBatch(number)
	}
	if err := t.read(); err != nil {
		return nil, err
	}
	id := number()
	t.noteEnd(id, t.r.firstSource().nextPlace())
	return t.newTask(t.rec[:], id), nil
}

// noteEnd records the position after a task.
func (t *Tasks) noteEnd(id uint64, after place) { t.ends[id%uint64(len(t.ends))] = after }

// After returns the position of the record after a task: the number of its file, from 0, and of its
// line, from 1. If records do not end with line ends, it counts records. The input must have one
// source. After may be called while Next runs, but not after Next has returned more than 256 tasks
// after this one.
func (t *Tasks) After(id uint64) (file int, line int64) {
	at := t.ends[id%uint64(len(t.ends))]
	return int(at >> placeLines), max(1, int64(at&(1<<placeLines-1))) // 1 if nothing was read
}

// read stores the next record of this share in t.rec.
func (t *Tasks) read() error {
	for {
		err := t.r.read(&t.rec[0])
		if err != nil || t.takes == nil || t.takes(t.newTask(t.rec[:], 0)) {
			return err
		}
	}
}

// Buffered reports whether Next certainly returns without blocking, because a whole record has
// been read. It returns false if that is not known, as in a product or with a Share.
// It must not be called while Next runs.
func (t *Tasks) Buffered() bool {
	return t.takes == nil && !t.cfg.Limits.batches() && t.r.single() && t.r.firstSource().buffered()
}

// newTask returns the task of recs. If it is not a batch, they are a single record.
func (t *Tasks) newTask(recs []Record, id uint64) *task.Task {
	rec := &recs[0]
	if t.cfg.Objects && rec.Err == nil {
		return t.describedTask(rec, id)
	}
	tk := &task.Task{ID: id, Records: columnsOf(recs), Err: rec.Err}
	if t.cfg.Stdin {
		tk.Stdin = t.stdin(recs)
	}
	if rec.Object != nil {
		tk.Object = rec.Text
	}
	t.fillFromRecord(tk, rec)
	return tk
}

// columnsOf returns the columns of each record.
func columnsOf(recs []Record) [][]string {
	list := make([][]string, len(recs))
	for i := range recs {
		list[i] = recs[i].Columns
	}
	return list
}

// nextBlock returns the task of the next block.
func (t *Tasks) nextBlock(number func() uint64) (*task.Task, error) {
	tk := &task.Task{Block: new(task.Block)}
	if err := t.cfg.Blocks.next(tk.Block); err != nil {
		return nil, err
	}
	tk.ID = number()
	t.fillFromRecord(tk, &Record{})
	return tk, nil
}

// CheckColumns returns an error if the templates use a column that no record can have, because
// the input consists of values with one column for each source.
func (t *Tasks) CheckColumns() error {
	sources, values := 0, false
	for _, a := range t.r.axes {
		for _, s := range a.parts {
			if s.split.re != nil || s.cfg.Kind != Lines || t.cfg.Limits.batches() {
				return nil
			}
			sources, values = sources+1, values || s.files == nil
		}
	}
	if err := t.placeholders.Check([][]string{make([]string, sources)}); values && err != nil {
		return fmt.Errorf("%w, or put ::: and another source behind it", err)
	}
	return nil
}

// checkRecords returns an error if any record of a task lacks a column that a template uses.
func (t *Tasks) checkRecords(tk *task.Task) error {
	err := t.placeholders.Check(tk.Records)
	if err != nil && t.r.single() && !t.cfg.Limits.batches() {
		err = t.r.errorAt(err)
	}
	return err
}

// SetValues makes Next continue with values, as if they were the values of a Group. The Reader must have
// one Group of values, and Next must have read it to its end.
func (t *Tasks) SetValues(values []string) {
	s := t.r.firstSource()
	s.values, s.line, s.err, t.r.err = values, 0, nil, nil
}
