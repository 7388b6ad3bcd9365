package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// world is a state directory and the runs that use it, one after another. Its steps are lines
// of words, which the rows in testdata and the model share.
type world struct {
	t       testing.TB
	cfg     Config
	notices []string

	j      *Journal
	tasks  map[string]*task.Task     // of this run, by name
	order  []string                  // their names
	runs   map[string]bool           // those that run
	ended  map[string]*task.Result   // that are to be shown
	before map[string]*task.Attempts // the earlier attempts at a task
	shows  shower
	books  shower // that Logs keeps
	commit *Commit
	logs   *Logs
	shown  *Shown

	synced  int64 // of the journal: what a power cut leaves
	outputs int64 // the same of the outputs
}

func newWorld(t testing.TB, queue bool) *world {
	w := &world{t: t, cfg: configured(t.TempDir())}
	if queue {
		w.cfg = queued(w.cfg.Dir)
	}
	w.cfg.Notice = func(s string) { w.notices = append(w.notices, s) }
	return w
}

// endings are how attempts end, by the words of the steps. Their output is that of OK and of
// failed ones.
var endings = map[string]struct {
	result task.Result
	last   bool // it ends the task
	none   bool // there was no attempt
}{
	"ok":        {task.Result{Outcome: task.OK}, true, false},
	"exit":      {task.Result{Outcome: task.Exit, Code: 3}, true, false},
	"gone":      {task.Result{Outcome: task.Lost}, true, false},
	"retry":     {task.Result{Outcome: task.Exit, Code: 75, Leaked: true, Err: errors.New(`oh "]`), Units: task.Holding{{Name: "a", Held: []string{"1"}}}}, false, false},
	"lost":      {task.Result{Outcome: task.Lost, Host: "web1"}, false, false},
	"memory":    {task.Result{Outcome: task.Memory}, false, false},
	"unbegun":   {task.Result{Outcome: task.Lost, Unbegun: true}, false, false},
	"cancel":    {task.Result{Outcome: task.Cancelled}, true, false},
	"fault":     {task.Result{Outcome: task.OK, Fault: errors.New("no space")}, true, false},
	"nocommand": {task.Result{Outcome: task.StartFailed, BadCommand: true}, true, false},
	"byhand":    {task.Result{Outcome: task.Cancelled, Final: true}, true, false},
	"skip":      {task.Result{Outcome: task.Skipped}, true, true},
	"refuse":    {task.Result{Outcome: task.StartFailed, Err: errors.New("no")}, true, true},
	"notrun":    {task.Result{Outcome: task.NotRun, Final: true}, true, true},
}

// do takes a step. What it returns is an error of the disk.
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
	case "damage":
		require.NoError(w.t, os.Truncate(filepath.Join(w.cfg.Dir, filepath.Base(w.j.out.file.Name())), 0))
	case "fails": // and nothing but notes is recorded any more
		w.j.fail(errors.New("no room"))
	case "block": // nothing can be made under the name of a new journal
		return os.MkdirAll(filepath.Join(w.cfg.Dir, newName, "full"), 0o700)
	case "litter": // as a crash leaves it
		return os.WriteFile(filepath.Join(w.cfg.Dir, names[0]), []byte("of a crash"), 0o600)
	case "compact", "compact-all":
		w.j.cfg.Slack = map[bool]int64{true: -1 << 40, false: 1 << 20}[op == "compact-all"]
		defer func() { w.j.cfg.Slack = 1 << 40 }()
		return w.compact()
	case "breaks": // the disk, from now on, as a device does
		var err error
		w.j.file.Close()
		w.j.file, err = os.OpenFile(names[0], os.O_RDWR, 0)
		require.NoError(w.t, err)
	case "breaks-outputs":
		var err error
		w.j.out.file, err = os.OpenFile(names[0], os.O_RDWR, 0)
		require.NoError(w.t, err)
	case "kill":
		w.kill(math.MaxInt64, "", false)
	case "powercut":
		w.kill(math.MaxInt64, "", true)
	default:
		w.t.Fatal("no such step: ", step)
	}
	return nil
}

// open begins a run. Of a name that comes again, the task gets the name with a plus. A word
// with commas stands for a file, the command that makes it, and the hash of its inputs.
func (w *world) open(words []string) error {
	w.cfg.Resume = Resume{Costs: true}
	var input given
	w.tasks, w.order = map[string]*task.Task{}, nil
	slack := w.cfg.Slack
	for _, word := range words {
		switch word {
		case "-retry":
			w.cfg.Resume.RetryFailed = true
		case "-replay":
			w.cfg.Resume.Replay = true
		case "-recall":
			w.cfg.Resume.Recall = true
		case "-changed":
			w.cfg.Resume.Changed = true
		case "-reset":
			w.cfg.Resume.Reset = true
		case "-compact":
			w.cfg.Slack = -1 << 40
		case "-lines":
			w.cfg.Output.Plan = task.Plan{Show: task.ShowLines}
		case "-order":
			w.cfg.Output.Plan.Order = true
		default:
			for w.tasks[word] != nil {
				word += "+"
			}
			w.tasks[word] = w.plain(word, uint64(len(input)+1))
			w.order = append(w.order, word)
			input = append(input, w.tasks[word])
		}
	}
	j, err := Open(w.cfg)
	w.cfg.Slack, w.cfg.Output.Plan = slack, task.Plan{}
	if err != nil {
		return err
	}
	w.t.Cleanup(func() { j.Close() })
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
	w.ended, w.before = map[string]*task.Result{}, map[string]*task.Attempts{}
	for name, tk := range w.tasks {
		a := known(tk)
		w.before[name] = &a
	}
	return nil
}

// plain is a task as it is read.
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

// end ends an attempt at a task, which it starts if need be, or the task without one. The nth attempt takes n seconds.
func (w *world) end(how, name string) {
	tk, e := w.tasks[name], endings[how]
	if !e.none && !w.runs[name] {
		w.start(name, false)
	}
	w.runs[name] = false
	r := e.result
	r.Task, r.Argv, r.Worker = tk, tk.Argv, 1
	if !e.none {
		r.Attempt, r.Start = tk.Attempts+1, time.Unix(1e9, 0)
		r.End = r.Start.Add(time.Duration(r.Attempt) * time.Second)
	}
	if (how == "ok" || how == "exit") && w.j.cfg.Output.Plan.Keeps() {
		r.Stdout = text(says(name, r.Attempt))
	}
	before := w.before[name]
	if e.last {
		r.Before, r.Omitted = before.Before, before.Omitted
		w.ended[name] = &r
	}
	if how != "notrun" { // of which the sinks alone are told
		w.j.Ended(task.Attempt{Task: tk, Number: r.Attempt}, &r, e.last)
	}
	if !e.last {
		tk.Attempts++
		if !r.Unbegun {
			var full bool
			if before.Before, _, full = task.KeepAttempt(before.Before, &r); full {
				before.Omitted++
			}
		}
	}
}

// says is what an attempt writes: mostly a little, sometimes more than waits to be written.
func says(name string, attempt int) string {
	text := fmt.Sprintf("%s%d ", name, attempt)
	if attempt%3 == 0 {
		text = strings.Repeat(text, smallOutput)
	}
	return text
}

// show gives the sinks results, of this run or of earlier ones, or only has them committed.
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
		if r.Known() {
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

// accept adds tasks to a queue, maybe by a door. Their names are their numbers.
func (w *world) accept(names []string, door string) error {
	for _, name := range names {
		id, err := strconv.ParseUint(name, 10, 64)
		require.NoError(w.t, err)
		w.tasks[name] = &task.Task{ID: id, Argv: []string{"x", name}, Bare: true, Env: []string{"A=" + name[:1], "B=2"}}
		w.before[name] = &task.Attempts{}
	}
	return w.j.Accept(w.named(names), door)
}

// change gives a task of a queue a note, and a name, too.
func (w *world) change(name string, words []string) error {
	changed := *w.tasks[name]
	changed.Asked = &task.Terms{Note: words[0]}
	if len(words) > 1 {
		changed.Asked.Name = words[1]
	}
	w.tasks[name] = &changed
	return w.j.Change([]*task.Task{&changed})
}

// note notes what a power cut would leave.
func (w *world) note() {
	o := w.j.out
	if !w.j.dirty && w.j.failure() == nil {
		w.synced = w.j.end
	}
	if !o.dirty {
		w.outputs = o.end
		if o.waiting.Len() > 0 {
			w.outputs = o.from
		}
	}
}

// kill goes on in a copy of the directory as a kill leaves it: of the journal n bytes and a torn
// tail. A power cut loses what was not synced, but for the places of the outputs.
func (w *world) kill(n int64, torn string, powercut bool) {
	dir := w.t.TempDir()
	require.NoError(w.t, os.CopyFS(dir, os.DirFS(w.cfg.Dir)))
	path := filepath.Join(dir, journalName)
	file, err := os.ReadFile(path)
	require.NoError(w.t, err)
	if powercut && n == math.MaxInt64 {
		n = w.synced
	}
	file = append(file[:min(n, int64(len(file)))], torn...)
	require.NoError(w.t, os.WriteFile(path, file, 0o600))
	output := filepath.Join(dir, filepath.Base(w.j.out.file.Name()))
	if info, err := os.Stat(output); err == nil && powercut {
		require.NoError(w.t, os.Truncate(output, min(info.Size(), w.outputs)))
		require.NoError(w.t, os.Truncate(output, info.Size()))
	}
	w.j.Close()
	w.cfg.Dir = dir
}

// view says what the run was told of a task: how it ended in an earlier one, or how often it
// was tried.
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
	return s + viewBefore(task.Attempts{Before: r.Before, Omitted: r.Omitted})
}

func viewBefore(a task.Attempts) (s string) {
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

// shower is the sink that shows: it gathers what it is given.
type shower struct {
	bytes.Buffer
	err, unsynced error
}

func (s *shower) Consume(events []task.Event) error {
	for _, e := range events {
		if e.Kind == task.Finished && e.Result.Stdout != nil && !e.Result.Earlier && s.err == nil {
			_, _ = e.Result.Stdout.WriteTo(s)
		}
	}
	return s.err
}

func (s *shower) Sync() error { return s.unsynced }

func (s *shower) Close(task.Stats) error { return s.err }

func read(t testing.TB, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, journalName))
	require.NoError(t, err)
	return string(b)
}

// known returns what is known of the earlier attempts of a task.
func known(t *task.Task) task.Attempts {
	if t.Known == nil {
		return task.Attempts{}
	}
	return *t.Known
}

// left returns the tasks that a queue holds at its start, by number.
func left(t testing.TB, j *Journal) map[uint64]*task.Task {
	t.Helper()
	tasks := map[uint64]*task.Task{}
	last := uint64(0)
	for tk, err := range j.QueueTasks() {
		require.NoError(t, err)
		require.Greater(t, tk.ID, last)
		last = tk.ID
		tasks[tk.ID] = tk
	}
	require.LessOrEqual(t, last, j.LastID())
	return tasks
}

// given is a source of tasks.
type given []*task.Task

func (g *given) Next(func() uint64) (*task.Task, error) {
	if len(*g) == 0 {
		return nil, io.EOF
	}
	t := (*g)[0]
	*g = (*g)[1:]
	return t, nil
}

// compact compacts the journal as it does by itself.
func (w *world) compact() error {
	l, err := w.j.loaded(w.j.file)
	if err == nil {
		defer l.table.close()
		err = w.j.compact(l)
	}
	return err
}
