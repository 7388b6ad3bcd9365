package journal

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// world is a state directory and a sequence of runs that use it. Its steps are lines of words,
// which the rows in testdata and the model share.
type world struct {
	t       testing.TB
	cfg     Config
	notices []string

	j      *Journal
	tasks  map[string]*task.Task           // of this run, by name
	order  []string                        // their names
	runs   map[string]bool                 // the running tasks
	ended  map[string]*task.Result         // results to be shown
	before map[string]*task.AttemptHistory // earlier attempts at a task
	shows  shower
	books  shower // the sink behind Logs
	commit *Commit
	logs   *Logs
	shown  *Shown

	synced  int64 // size of the journal that survives a power cut
	outputs int64 // the same for the outputs
}

func newWorld(t testing.TB, queue bool) *world {
	w := &world{t: t, cfg: configured(t.TempDir())}
	if queue {
		w.cfg = queued(w.cfg.Dir)
	}
	w.cfg.Notice = func(s string) { w.notices = append(w.notices, s) }
	return w
}

// ending is an end of an attempt. OK and failed ones have output.
type ending struct {
	Word         string // of steps
	Result       task.Result
	Error, Fault string
	Last         bool // it ends the task
	None         bool // there was no attempt
}

// endings holds the endings by their words.
var endings = map[string]ending{}

func init() {
	rows, _ := crewtest.Rows[ending]("testdata/endings.jsonl")
	for _, e := range rows {
		if e.Error != "" {
			e.Result.Err = errors.New(e.Error)
		}
		if e.Fault != "" {
			e.Result.Fault = errors.New(e.Fault)
		}
		endings[e.Word] = e
	}
}

// do takes a step. It returns an error of the disk.
func (w *world) do(step string) error {
	words := strings.Fields(step)
	op, names := words[0], words[1:]
	defer w.note()
	if _, is := endings[op]; is {
		for _, name := range names {
			w.end(op, name)
		}
		return nil
	}
	switch op {
	case "open":
		return w.open(names)
	case "close":
		return w.j.Close()
	case "finish":
		return errors.Join(w.commit.Close(task.Stats{}), w.logs.Close(task.Stats{}), w.shown.Close(task.Stats{}))
	case "start":
		for i, name := range names {
			w.start(name, i+1 < len(names))
		}
	case "idle":
		w.j.Idle()
	case "commit", "show":
		return w.show(names, op == "show")
	case "log":
		w.logs.due = time.Time{}
		if slices.Contains(names, "fails") {
			w.books.unsynced = errors.New("no log")
		}
		err := errors.Join(w.logs.Consume(nil), w.shown.Consume(nil))
		w.logs.due = time.Now().Add(1 << 62)
		return err
	case "accept":
		return w.accept(names, "")
	case "accept-door":
		return w.accept(names, names[0])
	case "change":
		return w.change(names[0], names[1:])
	case "withdraw":
		return w.j.Withdraw(w.named(names))
	case "logall":
		return w.j.ClearLogged()
	case "compact", "compact-all":
		w.j.cfg.Slack = map[bool]int64{true: -1 << 40, false: 1 << 20}[op == "compact-all"]
		defer func() { w.j.cfg.Slack = 1 << 40 }()
		return w.compact()
	default:
		return w.fault(op, names)
	}
	return nil
}

// open begins a run. A repeated name gets a plus. A word with commas stands for a file, the command
// that makes it, and the hash of its inputs.
func (w *world) open(words []string) error {
	w.cfg.Resume = Resume{Costs: true}
	var input given
	w.tasks, w.order = map[string]*task.Task{}, nil
	slack := w.cfg.Slack
	for _, word := range words {
		if strings.HasPrefix(word, "-") {
			w.set(word)
			continue
		}
		for w.tasks[word] != nil {
			word += "+"
		}
		w.tasks[word] = w.plain(word, uint64(len(input)+1))
		w.order = append(w.order, word)
		input = append(input, w.tasks[word])
	}
	j, err := Open(w.cfg)
	w.cfg.Slack, w.cfg.Output.Plan = slack, task.Plan{}
	if err != nil {
		return err
	}
	w.t.Cleanup(func() { j.Close() })
	require.NoError(w.t, j.Begin())
	w.j = j
	w.shows, w.books = shower{}, shower{}
	w.commit, w.logs, w.shown = j.Commit(), j.Logs(&w.books), j.Shown(&w.shows)
	w.logs.due = time.Now().Add(1 << 62)
	w.synced, w.outputs = j.end, min(w.outputs, j.out.end)
	w.note()
	if w.cfg.Queue != nil {
		j.cfg.Slack = 1 << 40
		w.tasks = map[string]*task.Task{}
		for id, tk := range left(w.t, j) {
			w.tasks[fmt.Sprint(id)] = tk
			w.order = append(w.order, fmt.Sprint(id))
		}
		slices.Sort(w.order)
	}
	for src := j.Source(&input); len(input) > 0; {
		_, err := src.Next(nil)
		require.NoError(w.t, err)
	}
	w.runs = map[string]bool{}
	w.ended, w.before = map[string]*task.Result{}, map[string]*task.AttemptHistory{}
	for name, tk := range w.tasks {
		a := known(tk)
		w.before[name] = &a
	}
	return nil
}

// set sets an option of the next run.
func (w *world) set(option string) {
	r, plan := &w.cfg.Resume, &w.cfg.Output.Plan
	switch option {
	case "-compact":
		w.cfg.Slack = -1 << 40
	case "-lines":
		*plan = task.Plan{Show: task.ShowLines}
	default:
		*map[string]*bool{
			"-retry": &r.RetryFailed, "-replay": &r.Replay, "-recall": &r.Recall, "-changed": &r.Changed, "-reset": &r.Reset, "-order": &plan.Order,
		}[option] = true
	}
}

// plain returns a task as the source returns it.
func (w *world) plain(word string, id uint64) *task.Task {
	parts := strings.Split(strings.TrimRight(word, "+"), ",")
	if len(parts) < 3 {
		return &task.Task{ID: id, Argv: []string{"x", parts[0]}}
	}
	inputs, err := strconv.ParseUint(parts[2], 10, 64)
	require.NoError(w.t, err)
	return &task.Task{ID: id, Argv: []string{parts[1]}, Makes: &task.Making{
		Targets: []task.Target{{Path: parts[0], Temp: true}}, Stamp: task.Stamp{Inputs: inputs, Since: 1 << 62},
	}}
}

func (w *world) start(name string, more bool) {
	w.runs[name] = true
	w.j.Started(task.Attempt{Task: w.tasks[name], Number: w.tasks[name].Attempts + 1, Slot: task.Slot{ID: 1}}, more)
}

// end ends an attempt at a task, after starting it if necessary, or ends the task without one. The
// nth attempt takes n seconds.
func (w *world) end(how, name string) {
	tk, e := w.tasks[name], endings[how]
	if !e.None && !w.runs[name] {
		w.start(name, false)
	}
	w.runs[name] = false
	r := e.Result
	r.Task, r.Argv, r.Worker = tk, tk.Argv, 1
	if !e.None {
		r.Attempt, r.Start = tk.Attempts+1, time.Unix(1e9, 0)
		r.End = r.Start.Add(time.Duration(r.Attempt) * time.Second)
	}
	if (how == "ok" || how == "exit") && w.j.cfg.Output.Plan.Keeps() {
		r.Stdout = text(says(name, r.Attempt))
	}
	before := w.before[name]
	if e.Last {
		r.Before, r.Omitted = before.Before, before.Omitted
		w.ended[name] = &r
	}
	if how != "notrun" { // only the sinks get it
		w.j.Ended(task.Attempt{Task: tk, Number: r.Attempt}, &r, e.Last)
	}
	if !e.Last && !r.Unbegun {
		tk.Attempts++
		var out *task.Result
		if before.Before, out = task.AppendAttempt(before.Before, &r); out != nil {
			before.Omitted++
		}
	}
}

// says returns the output of an attempt: usually short, sometimes longer than the buffer.
func says(name string, attempt int) string {
	text := fmt.Sprintf("%s%d ", name, attempt)
	if attempt%3 == 0 {
		text = strings.Repeat(text, smallOutput)
	}
	return text
}

// show passes results to the sinks, of this run or of earlier ones, or only commits them.
func (w *world) show(names []string, shown bool) error {
	var events []task.Event
	for _, name := range names {
		tk := w.tasks[name]
		r := w.ended[name]
		switch {
		case r != nil:
		case tk.Done != nil:
			r = tk.Done
		default:
			r = tk.Makes.Done
		}
		attempt := r.Attempt
		if r.FromEarlierRun() {
			attempt = 0
		}
		events = append(events,
			task.Event{Kind: task.Finished, ID: tk.ID, Task: tk, Result: r, Attempt: attempt},
			task.Event{Kind: task.Released, ID: tk.ID, Last: tk.ID})
	}
	err := w.commit.Consume(events)
	w.note()
	if !shown {
		return err
	}
	return errors.Join(err, w.logs.Consume(events), w.shown.Consume(events))
}

func (w *world) named(names []string) (tasks []*task.Task) {
	for _, name := range names {
		tasks = append(tasks, w.tasks[name])
	}
	return tasks
}

// accept adds tasks to a queue, perhaps as a delivery. Their names are their numbers.
func (w *world) accept(names []string, delivery string) error {
	for _, name := range names {
		id, err := strconv.ParseUint(name, 10, 64)
		require.NoError(w.t, err)
		w.tasks[name] = &task.Task{ID: id, Argv: []string{"x", name}, Bare: true, Env: []string{"A=" + name[:1], "B=2"}}
		w.before[name] = &task.AttemptHistory{}
	}
	return w.j.Accept(w.named(names), delivery)
}

// change gives a task of a queue a note and perhaps a name.
func (w *world) change(name string, words []string) error {
	changed := *w.tasks[name]
	changed.Asked = &task.Terms{Note: task.Bytes(words[0])}
	if len(words) > 1 {
		changed.Asked.Name = task.Bytes(words[1])
	}
	w.tasks[name] = &changed
	return w.j.Change([]*task.Task{&changed})
}

// view returns the state of a task at the start of the run: how it ended in an earlier one, or how
// often it was tried.
func (w *world) view(name string) string {
	tk := w.tasks[name]
	var b strings.Builder
	r := tk.Done
	if m := tk.Makes; m != nil {
		b.WriteString([]string{task.NotKnown: " unknown", task.KnownMade: " made", task.KnownUnmade: " unmade"}[m.Known])
		if m.Made != (task.Stamp{}) {
			fmt.Fprintf(&b, " of %d", m.Made.Inputs)
		}
		r = m.Done
	}
	switch {
	case tk.Err != nil:
		fmt.Fprintf(&b, " %v", tk.Err)
	case r != nil:
		b.WriteString(viewResult(w.t, r))
	case tk.Attempts > 0 && (tk.Makes == nil || tk.Makes.Known != task.KnownMade):
		fmt.Fprintf(&b, " tried %d failed %d", tk.Attempts, tk.Failures)
		b.WriteString(viewBefore(known(tk)))
	}
	if tk.Cost > 0 && tk.Cost < math.MaxInt64 {
		fmt.Fprintf(&b, " took %d", tk.Cost/1e6)
	}
	if terms := tk.Terms(); terms.Note != "" {
		fmt.Fprintf(&b, " %s %s", terms.Note, terms.Name)
	}
	return strings.TrimSpace(b.String())
}

func viewResult(t testing.TB, r *task.Result) string {
	s := " " + r.Outcome.String()
	if r.Earlier {
		s += " shown"
	}
	if r.Logged {
		s += " logged"
	}
	if r.Final {
		s += " final"
	}
	if r.Stdout != nil {
		var out bytes.Buffer
		_, err := r.Stdout.WriteTo(&out)
		require.NoError(t, err)
		s += fmt.Sprintf(" says %s %d", strings.Fields(out.String())[0], out.Len())
	}
	return s + viewBefore(task.AttemptHistory{Before: r.Before, Omitted: r.Omitted})
}

func viewBefore(a task.AttemptHistory) (s string) {
	for _, r := range a.Before {
		s += fmt.Sprintf(" %d:%v", r.Attempt, r.Outcome)
		if !r.Earlier {
			s += "?"
		}
		if r.Err != nil {
			s += "!"
		}
		s += r.Host
	}
	if a.Omitted > 0 {
		s += fmt.Sprintf(" and %d", a.Omitted)
	}
	return s
}

// text returns an output.
func text(s string) task.Output { return spool.Text(s) }

func configured(dir string) Config {
	return Config{Dir: dir, Command: Command{Line: "crew x", Dir: "/"}, Notice: func(string) {}, Slack: 1 << 20}
}

func queued(dir string) Config {
	cfg := configured(dir)
	cfg.Command, cfg.Queue = Command{Line: "crew serve"}, &Queue{Keep: time.Hour}
	return cfg
}

// compact compacts the journal in the same way as the journal itself does.
func (w *world) compact() error {
	l, err := w.j.loadContents(w.j.end)
	if err == nil {
		defer l.table.close()
		err = w.j.compact(l)
	}
	return err
}
