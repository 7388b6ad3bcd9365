package input

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
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

	// Share reports whether to take a record, by the task of that record alone, which has
	// no number and comes after no other; nil takes all. It is safe for concurrent use.
	Share func(*task.Task) bool

	Blocks *Blocks // what each task reads one of, instead of records; nil for none

	// Protocol says how records reach the persistent worker whose command Template is.
	// That must not take anything from records, and Limits must be one record.
	Protocol task.Protocol
}

// Texts are templates for what a task has beside its command.
type Texts struct {
	Key     *expand.Text // nil means no key
	Cost    *expand.Text // nil means 1
	Tag     *expand.Text // nil means no tag
	Results *expand.Text // the directory for a task's results; nil if nothing asks for it
	Files   Files
	Travel  []*expand.Text // names of files that travel with a task
	Terms
}

// Limits bound how many records go into one command. The zero Limits means one
// record of any size.
type Limits struct {
	Records int // number of records; 0 means no limit if Chars is set, else 1
	Chars   int // bytes of arguments including NULs, counted as xargs does; 0 means no limit
	ArgMax  int // bytes of arguments including NULs and pointers, counted as execve does; 0 means no limit

	// Workers is how many commands share the last records evenly. Up to as many full
	// commands are held back until more has been read. If it is 0 or 1, each command is
	// filled as the records come.
	Workers int
}

func (l Limits) batches() bool { return l.Records > 1 || l.Chars > 0 }

// Tasks makes tasks of the records of a Reader. It is a runner.Source.
type Tasks struct {
	// configuration

	r      *Reader
	cfg    TasksConfig
	fields []string // the members of a JSON object that the templates name
	units  []string // the caps that they name
	holds  expand.Placeholders
	worker task.Task // with cfg.Protocol: has the command

	// state

	rec    [1]Record   // the latest record
	queue  []Record    // read, for the next batches
	held   int         // bytes of the columns of these
	shares int         // with Limits.Workers: how many are to share them; 0 until the input has ended
	latest uint64      // number of the latest batch
	usual  int         // how many records that has
	spare  []oneRecord // not yet returned by allocate
	names  Names       // with cfg.Objects: of the tasks
	asker  asker
	spells spellings

	ends [512]place // what comes after the latest tasks, by their numbers
}

// NewTasks returns the tasks of what is left in r. With JSON, cfg must not put several records
// into a command.
func NewTasks(r *Reader, cfg TasksConfig) *Tasks {
	all := slices.Clone(cfg.Template.Placeholders)
	for _, text := range append(append(cfg.Files.texts(), cfg.Travel...), cfg.Key, cfg.Cost, cfg.Tag, cfg.Results, cfg.Priority, cfg.Weight, cfg.Needs) {
		if text != nil {
			all = append(all, text.Placeholders...)
		}
	}
	t := &Tasks{r: r, cfg: cfg, fields: all.Fields(), units: all.Caps(), holds: all, asker: asker{Terms: cfg.Terms}}
	if cfg.Protocol != task.NoProtocol {
		t.expand(&t.worker, expand.Values{})
	}
	return t
}

// Separator returns the bytes that end each record on a task's standard input,
// which are those that end the records of the input.
func (t *Tasks) Separator() string { return t.r.delimiter }

// Names returns the names of tasks: the ids of the records so far. What the caller defines
// or undoes there counts for later records. It must not do so while Next runs.
func (t *Tasks) Names() *Names { return &t.names }

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

// EachRecord returns what a text is for each record of a task, or for all of them if it takes
// nothing from these.
func EachRecord(text *expand.Text, tk *task.Task) []string {
	v, _ := valuesOf(tk, tk.ID, text.Fields()) // tk.Err has the error
	return eachText(text, v)
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
// task's records have been read. A record that cannot be run becomes a task with
// an Err. An error, such as io.EOF, ends the input. The caller owns the task.
func (t *Tasks) Next(number func() uint64) (*task.Task, error) {
	switch {
	case t.cfg.Blocks != nil:
		return t.block(number)
	case t.cfg.Limits.batches():
		return t.batch(number)
	}
	if err := t.read(); err != nil {
		return nil, err
	}
	id := number()
	t.end(id, t.r.first().after())
	return t.of(t.rec[:], id), nil
}

// end notes where what comes after a task begins.
func (t *Tasks) end(id uint64, after place) { t.ends[id%uint64(len(t.ends))] = after }

// Rest returns where the record after a task begins: the number of its file, from 0, and of
// its line, from 1. Where other separators than line ends end records, it counts these. The
// input must have one source. Rest may be called while Next runs, but not if that has returned
// more than 256 tasks after this one.
func (t *Tasks) Rest(id uint64) (file int, line int64) {
	at := t.ends[id%uint64(len(t.ends))]
	return int(at >> placeLines), int64(at & (1<<placeLines - 1))
}

// read stores the next record of the share in rec.
func (t *Tasks) read() error {
	for {
		err := t.r.read(&t.rec[0])
		if err != nil || t.cfg.Share == nil || t.cfg.Share(t.of(t.rec[:], 0)) {
			return err
		}
	}
}

// Buffered reports whether Next certainly returns without blocking, since a whole record
// has been read. It is false where that is not known, as in a product or with a Share.
// The goroutine of Next may call it.
func (t *Tasks) Buffered() bool {
	return t.cfg.Share == nil && !t.cfg.Limits.batches() && t.r.single() && t.r.first().buffered()
}

// oneRecord is a task together with the slice that it needs.
type oneRecord struct {
	task.Task
	records [1][]string
}

// allocate returns a zero oneRecord. Those for workers, of which there may be a million
// a second, share an allocation, which lives as long as any of them. This takes a fifth
// less of the CPU.
func (t *Tasks) allocate() *oneRecord {
	if t.cfg.Protocol == task.NoProtocol {
		return new(oneRecord)
	}
	if len(t.spare) == 0 {
		t.spare = make([]oneRecord, 16)
	}
	s := &t.spare[0]
	t.spare = t.spare[1:]
	return s
}

// of returns the task of records, of which there is one unless it is a batch.
func (t *Tasks) of(recs []Record, id uint64) *task.Task {
	rec := &recs[0]
	if t.cfg.Objects && rec.Err == nil {
		return t.described(rec, id)
	}
	s := t.allocate()
	if s.records[0] = rec.Columns; len(recs) > 1 {
		s.Records = columnsOf(recs)
	} else {
		s.Records = s.records[:]
	}
	s.ID, s.Err = id, rec.Err
	if t.cfg.Stdin {
		s.Stdin = t.stdin(recs)
	}
	if rec.Object != nil {
		s.Object = rec.Text
	}
	t.finish(&s.Task, rec)
	return &s.Task
}

// columnsOf returns the columns of each record.
func columnsOf(recs []Record) [][]string {
	list := make([][]string, len(recs))
	for i := range recs {
		list[i] = recs[i].Columns
	}
	return list
}

// block returns the task of the next block.
func (t *Tasks) block(number func() uint64) (*task.Task, error) {
	tk := &task.Task{Block: new(task.Block)}
	if err := t.cfg.Blocks.next(tk.Block); err != nil {
		return nil, err
	}
	tk.ID = number()
	t.finish(tk, &Record{})
	return tk, nil
}

// CheckColumns returns an error if no record can have a column that the templates name:
// there are values, and each source is one column.
func (t *Tasks) CheckColumns() error {
	sources, values := 0, false
	for _, a := range t.r.axes {
		for _, s := range a.parts {
			if s.split.re != nil || s.cfg.Format.Kind != Lines || t.cfg.Limits.batches() {
				return nil
			}
			sources, values = sources+1, values || s.files == nil
		}
	}
	if err := t.holds.Check([][]string{make([]string, sources)}); values && err != nil {
		return fmt.Errorf("%w, or put ::: and another source behind it", err)
	}
	return nil
}

// lacks returns an error if one of a task's records lacks a column that a template names.
func (t *Tasks) lacks(tk *task.Task) error {
	err := t.holds.Check(tk.Records)
	if err != nil && t.r.single() && !t.cfg.Limits.batches() {
		err = t.r.at(err)
	}
	return err
}

// finish sets what follows from the task's records, of which rec is the first.
func (t *Tasks) finish(tk *task.Task, rec *Record) {
	if tk.Err == nil {
		tk.Err = t.lacks(tk)
	}
	v := expand.Values{Records: tk.Records}
	t.fill(tk, &v, rec.Object, written{})
	switch {
	case tk.Err != nil:
	case t.cfg.Protocol != task.NoProtocol:
		t.send(tk, rec)
	default:
		t.expand(tk, v)
	}
}

// Fill sets the command of a task whose records another machine has read. It may be
// called while Next runs.
func (t *Tasks) Fill(tk *task.Task) error {
	if t.cfg.Protocol != task.NoProtocol {
		rec := Record{Text: string(tk.Stdin)} // what the worker gets of it, unless tk.Records are all
		if len(tk.Records) > 0 {
			rec.Columns = tk.Records[0]
		}
		t.send(tk, &rec)
		return tk.Err
	}
	v, err := valuesOf(tk, tk.Origin.Task, t.fields)
	if err != nil {
		return err
	}
	t.expand(tk, v)
	return tk.Err
}

// Tag sets the tag of a task that has its records.
func (t *Tasks) Tag(tk *task.Task) {
	if t.cfg.Tag != nil {
		t.cfg.Tag.FillTag(tk, expand.Values{Records: tk.Records, Seq: tk.ID})
	}
}

// fill sets what does not depend on the task's command. obj is the JSON object
// that it comes from, if any, and w what stands there instead of texts from templates.
func (t *Tasks) fill(tk *task.Task, v *expand.Values, obj Object, w written) {
	v.Seq = tk.ID
	if obj != nil && tk.Err == nil {
		err := t.ambiguous(obj)
		if err == nil {
			v.Fields, err = obj.fields(t.fields)
		}
		if err != nil {
			tk.Err = t.r.at(err)
		}
	}
	for i, text := range [...]*expand.Text{t.cfg.Priority, t.cfg.Weight, t.cfg.Needs, t.cfg.Key, t.cfg.Cost} {
		if text != nil && w[i] == nil {
			w[i] = new(text.Expand(*v))
		}
	}
	if w[3] != nil {
		tk.Key = *w[3]
	}
	if t.cfg.Tag != nil {
		t.cfg.Tag.FillTag(tk, *v)
	}
	if w[4] != nil && tk.Err == nil {
		tk.Cost, tk.Err = parseCost(*w[4])
	}
	if tk.Err == nil {
		tk.Err = t.asker.ask(tk, w)
	}
	if len(t.cfg.Files.Makes) > 0 && tk.Err == nil {
		tk.Makes, tk.Err = t.cfg.Files.of(tk, v)
		t.spells.spell(tk, t.cfg.Files.Dir)
	}
}

// expand sets the task's command, or its Err if the system would not accept it.
func (t *Tasks) expand(tk *task.Task, v expand.Values) {
	t.cfg.Template.Fill(tk, v)
	t.bound(tk)
}

// bound leaves the task without a command if it has an Err or exceeds a limit.
func (t *Tasks) bound(tk *task.Task) {
	if tk.Err == nil {
		tk.Err = t.fits(tk)
	}
	if tk.Err != nil {
		tk.Argv, tk.Exec, tk.Shell = nil, nil, false
	}
}

// stdin returns what a task reads of records.
func (t *Tasks) stdin(recs []Record) (text []byte) {
	for i := range recs {
		text = append(append(text, recs[i].text()...), t.r.delimiter...)
	}
	return text
}

// parseCost reads a positive number. It rounds up, and to the largest int64 at the
// most.
func parseCost(s string) (int64, error) {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil && n > 0 {
		return n, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || !(f > 0) || math.IsInf(f, 1) || strings.ContainsAny(s, "xX"):
		return 0, fmt.Errorf("cost %q is not a positive number", s)
	case f >= math.MaxInt64:
		return math.MaxInt64, nil
	}
	return int64(math.Ceil(f)), nil
}

// maxArgument is the longest argument that Linux accepts, without its NUL
// (MAX_ARG_STRLEN in linux/binfmts.h). It holds on other systems, too, so that a run which
// one machine takes another does not refuse.
const maxArgument = 128<<10 - 1

const pointerSize = 8

var (
	errTooLong = errors.New("argument list too long")
	errNUL     = errors.New(`an argument holds a NUL byte, which no command can be given: write the object without \u0000`)
)

// left returns how many bytes the task's command, with what the task adds to the environment,
// may grow until it exceeds a limit of the system or Limits.Chars. argv is what is run.
func (t *Tasks) left(tk *task.Task, argv []string) int {
	temps := 0
	for _, m := range tk.Marks {
		if m.Temp { // at least of people's form or of that which runs
			temps += task.TempLen
		}
	}
	left := maxArgument - longest(argv) - temps
	if l := t.cfg.Limits.Chars; l > 0 {
		left = min(left, l-charsOf(tk.Argv))
	}
	if l := t.cfg.Limits.ArgMax; l > 0 {
		left = min(left, l-temps-charsOf(argv)-pointerSize*len(argv)-charsOf(tk.Env)-pointerSize*len(tk.Env))
	}
	return left
}

// fits returns an error if the system would not accept the command.
func (t *Tasks) fits(tk *task.Task) error {
	argv := tk.ExecOn(0, "", nil)
	// For other records the hint would be wrong: there -0 helps.
	if tk.Object != "" && slices.ContainsFunc(argv, func(w string) bool { return strings.IndexByte(w, 0) >= 0 }) {
		return errNUL
	}
	left := t.left(tk, argv)
	if left >= 0 {
		return nil
	}
	n := -1
	for _, cols := range tk.Records {
		n += charsOf(cols)
	}
	unit := "bytes"
	if n == 1 {
		unit = "byte"
	}
	return fmt.Errorf("%w: record is %d %s, the limit is %d", errTooLong, n, unit, max(0, n+left))
}

// Give has Next go on with values, of which it makes what it would make of the
// values of a Group. The Reader must have one Group of values, and Next must have
// read it to its end.
func (t *Tasks) Give(values []string) {
	s := t.r.first()
	s.values, s.line, s.err, t.r.err = values, 0, nil, nil
}

// Command returns a task that runs words as they are: one word as a command line,
// several as a program with its arguments. Its record is the command line. The
// template must have no command. The caller owns the task.
func (t *Tasks) Command(words []string, id uint64) *task.Task {
	tk, script := &task.Task{ID: id}, len(words) == 1
	line := words[0]
	if !script {
		line = tk.CommandLine(words)
	}
	tk.Records = [][]string{{line}}
	t.fill(tk, &expand.Values{Records: tk.Records}, nil, written{})
	return t.given(tk, words, script, nil)
}

// given has a task run what its record gives as the command: words, of which the only one may
// be a script, and arguments.
func (t *Tasks) given(tk *task.Task, words []string, script bool, args []string) *task.Task {
	switch {
	case tk.Err != nil:
	case script:
		tk.Argv, tk.Shell, tk.Err = t.cfg.Template.Script(words[0], args)
	default:
		tk.Argv = slices.Concat(words, args)
	}
	t.bound(tk)
	return tk
}
