// Package journal records a run in a directory, so that the same command, started
// again, resumes where it stopped, however it was stopped.
//
// The record is a file of JSON lines that is only appended to (see seal), beside files of
// outputs. Both are compacted once they waste much space. An attempt's start is in the
// file before its process exists, and its end, with its output, before another attempt
// starts in its slot; so after a kill -9 at most one task per worker is in doubt. To that
// end the run reports to the journal, which is a runner.Recorder, what it decided about
// each attempt.
//
// A queue has no input that could be read again, so its journal holds the tasks
// themselves (see Journal.Accept), and is compacted while the run goes on.
//
// The sinks of this package do the rest. Commit makes results durable before they
// are shown, with one fsync for all that ended since the last (group commit). Shown
// records that they were shown, and Logs that the joblog and the results tree have them.
package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/trust"
)

// Config configures a journal.
type Config struct {
	Dir     string // created if missing
	Command Command
	Resume  Resume
	Output  Output

	// SameCommand means that a command that cannot be executed for one task ends
	// the run. The task is then not done, and the next run tries it again.
	SameCommand bool
	// Notice receives messages for the user.
	Notice func(string)
	// Slack is how many bytes a file may waste, beyond as many as it needs, before
	// it is compacted.
	Slack int64
	// Queue makes it the journal of a queue, if not nil.
	Queue *Queue
}

// Resume says how to treat the tasks that earlier runs finished.
type Resume struct {
	Replay      bool // show their results again
	Recall      bool // bring their whole results along although they were shown
	RetryFailed bool // run those that failed again
	Reset       bool // run all of them again
	Changed     bool // run all of them again if a program has changed
	Costs       bool // let Source set the cost of a task that has none to its last duration
}

// Output says what happens to results outside the journal.
type Output struct {
	Plan        task.Plan
	Logs        bool // a joblog or a results tree receives them, through Journal.Logs
	MaybeClosed bool // stdout may be closed: do not record that it has a result
}

// shownAtEnd reports whether a result counts as shown when its task ends.
func (o *Output) shownAtEnd() bool { return o.Plan.Streams() && !o.Plan.Order && !o.MaybeClosed }

// InUse is the error of Open if another run has the directory.
type InUse struct {
	Dir string
	PID int // 0 if it belongs to another PID namespace
}

// Error names the directory and the process.
func (e *InUse) Error() string {
	if e.PID == 0 {
		return e.Dir + " is in use by another crew"
	}
	return fmt.Sprintf("%s is in use by crew, process %d", e.Dir, e.PID)
}

// WrongDir is the error of Open if the directory belongs to another command or another
// user, or holds other files than a journal's. The user has to decide what to do.
type WrongDir struct{ text string }

// Error says what is in the directory and what the user can do.
func (e *WrongDir) Error() string { return e.text }

// Journal is the open record of a run. Its Source is used by one goroutine and its
// sinks by one. Started, Ended, Idle, Unkept, EndedTasks, Accept, Withdraw, LastID and Close
// are safe for concurrent use.
type Journal struct {
	// configuration

	cfg Config
	dir directory

	// earlier runs; used by Open, then by the Source, and closed while using is held

	using  sync.Mutex // of the table: a run that is told to end does not wait for the Source
	past   *loaded
	unkept atomic.Int64 // results to be shown again whose outputs were not kept

	programs []string // as they were when this journal first had a task
	changed  []string // the paths of those that are no longer like that

	// recording

	reading sync.Mutex // held while EndedTasks reads the journal

	began int64 // offset of the first line that counts for EndedTasks
	lock  *os.File
	out   *outputs // its field is set while saving, syncing, mu and reading are held
	file  *os.File

	mu      sync.Mutex
	waiting []byte // lines to be written with the next ones
	end     int64  // of the last line in file
	dirty   bool   // written to since the last sync
	closed  bool

	fault atomic.Pointer[error] // the first error; nothing but notes is written after it

	syncing sync.Mutex   // held, before mu is taken, while file is synced or replaced
	saving  sync.RWMutex // held for reading, before mu is taken, while an output and its line are written
	queue   queue
	door    string // see LastDelivery

	compactor compactor
}

// Open creates or resumes the journal of a directory and locks the directory. The
// error is a *WrongDir if the directory is not for this run, or not the user's own, and an
// *InUse while another run has it.
func Open(cfg Config) (*Journal, error) {
	j, err := open(cfg)
	switch err := err.(type) {
	case nil, *WrongDir, *headError:
		return j, err
	case *trust.Error:
		return nil, &WrongDir{err.Error()}
	}
	return nil, fmt.Errorf("open state: %w", err)
}

func open(cfg Config) (*Journal, error) {
	if err := trust.MakeDir(cfg.Dir); err != nil {
		return nil, err
	}
	if err := checkDir(cfg.Dir); err != nil {
		return nil, err
	}
	dir := directory{cfg.Dir, cfg.Queue != nil}
	lock, err := dir.lock()
	if err != nil {
		return nil, err
	}
	j := &Journal{cfg: cfg, dir: dir, lock: lock, out: &outputs{}}
	err = j.openFiles()
	if err == nil {
		err = j.begin()
	}
	if err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// Exists reports whether a directory holds a journal.
func Exists(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, journalName))
	return err == nil
}

// checkDir returns an error if a directory without a journal holds other files.
func checkDir(dir string) error {
	if Exists(dir) {
		return nil
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if _, ok := outputNumber(e.Name()); !ok && e.Name() != lockName && e.Name() != newName {
			return &WrongDir{dir + " is not empty and holds no journal: give a directory of its own"}
		}
	}
	return err
}

// openFiles loads the journal, which it creates or compacts first if needed, and
// opens the files of outputs.
func (j *Journal) openFiles() error {
	f, err := j.dir.open(journalName, 0)
	if err == nil {
		j.file = f
		err = j.load()
	}
	_, unknown := errors.AsType[*headError](err)
	switch reset := j.cfg.Resume.Reset; {
	case err == nil && !reset:
		if err = j.resume(); err == nil {
			err = j.compare()
		}
	case err == nil, errors.Is(err, fs.ErrNotExist), unknown && reset:
		err = j.startOver()
	}
	if err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(j.cfg.Dir, newName)) // a crash may have left it
	return j.file.Truncate(j.end)                    // drops a torn line
}

// load loads the journal, again if it was replaced, and opens its outputs. It returns an error if
// it is a queue's and this one is not, or the other way round.
func (j *Journal) load() error {
	l, err := j.loaded(j.file)
	if err != nil {
		return err
	}
	if j.past != nil {
		j.past.table.close()
	}
	if l.lacks > 0 {
		l.undo()
		l.Counts, l.needed, l.outputs = Counts{}, 0, 0
		l.count()
	}
	j.past, j.end, j.door = l, l.scanned.end, l.door
	j.compactor.needed, j.compactor.outputs = l.needed, l.outputs
	j.queue = queue(l.head.Queue)
	if queue := l.head.Queue > 0; queue != j.dir.queue {
		what := "the journal of a run, which is not a crew serve"
		if queue {
			what = "the tasks of a crew serve"
		}
		return &WrongDir{j.cfg.Dir + " holds " + what + ": give another directory"}
	}
	out, err := j.dir.outputs(l.head.Outputs, l.outEnd)
	if err == nil {
		_ = j.out.file.Close() // may be nil
		j.out = out
		j.dir.clear(out)
	}
	if err == nil && l.Unshown > 0 { // what is shown is never lost
		err = out.sync()
	}
	return err
}

// resume checks that the loaded journal is of the same command, or of another one of a queue of
// which no task waits, and compacts it if it wastes much space. If that fails, the journal
// stays as it is.
func (j *Journal) resume() error {
	l := j.past
	waiting, changed := l.Waiting+l.Running, !j.cfg.Command.began(l.head)
	if changed && (!j.dir.queue || waiting > 0) {
		was, now := string(l.head.Command), j.cfg.Command.Line
		if was == now {
			was, now = "run in "+string(l.head.Dir), "run in "+j.cfg.Command.Dir
		}
		hint := "start over with --state-reset, or give another directory"
		if j.dir.queue {
			hint = task.Count(int64(waiting), "task") + " still to run: finish with the former command, or give another directory"
		}
		return &WrongDir{fmt.Sprintf("%s belongs to another command: it was %s, this is %s; %s", j.cfg.Dir, was, now, hint)}
	}
	if damage := l.scanned.damage(); damage != "" {
		j.cfg.Notice(j.file.Name() + ": " + damage)
	}
	if !j.wastes() && !changed {
		return nil
	}
	switch err := j.compact(l); {
	case err == nil:
		return j.load()
	case changed:
		return err
	}
	return j.failure()
}

// compare finds out which programs have changed since they did what is done, and starts over if
// that is asked for.
func (j *Journal) compare() error {
	now := j.cfg.Command.Programs
	if j.past.run > 0 && j.past.used() {
		if r, _ := readRecord(j.past.file, j.past.run); r.Programs != "" {
			j.programs = strings.Split(string(r.Programs), "\n")
		}
	}
	for _, p := range j.programs {
		if _, path, _ := strings.Cut(p, " "); !slices.Contains(now, p) {
			j.changed = append(j.changed, path)
		}
	}
	if len(j.changed) == 0 || !j.cfg.Resume.Changed {
		return nil
	}
	j.programs = nil
	return j.startOver()
}

// ChangedPrograms returns the programs that have changed since they did what is done.
func (j *Journal) ChangedPrograms() []string { return j.changed }

// begin records that a run begins.
func (j *Journal) begin() error {
	if j.cfg.Queue == nil {
		j.began = j.end
	}
	if j.programs == nil {
		j.programs = j.cfg.Command.Programs
	}
	return j.append(true, func(b []byte) []byte {
		b = task.AppendTime(begin(b, evRun), "at", time.Now())
		b = task.AppendInt(b, "pid", int64(os.Getpid()))
		b = task.AppendInt(b, "done", int64(j.past.Done))
		if len(j.programs) > 0 {
			b = task.AppendText(b, "programs", strings.Join(j.programs, "\n"))
		}
		return b
	})
}

// Close closes the files and releases the lock. It may be called again.
func (j *Journal) Close() error {
	j.mu.Lock()
	j.compactor.stopping.Store(true)
	j.mu.Unlock()
	j.compactor.running.Wait()
	j.syncing.Lock()
	defer j.syncing.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	_ = j.flush()
	j.closed = true
	if j.past != nil {
		j.using.Lock()
		j.past.table.close()
		j.using.Unlock()
	}
	_ = j.file.Close() // may be nil
	_ = j.out.file.Close()
	_ = j.lock.Close()
	return nil
}

// Resumed returns what earlier runs left. ok is false if that is nothing.
func (j *Journal) Resumed() (c Counts, ok bool) {
	return j.past.Counts, j.past.used() || j.past.Waiting > 0
}

// ClearLogged lets every result of earlier runs be logged again, by this run or by later
// ones. It is called before the Source is used and before the joblog or the results
// tree is emptied.
func (j *Journal) ClearLogged() error {
	j.past.table.clear(logged)
	return j.append(true, func(b []byte) []byte { return begin(b, evUnlogged) })
}

// Unlogged is an iter.Seq of the start times of the tasks that earlier runs finished
// and the joblog or the results tree may lack. It is called before the Source is
// used.
func (j *Journal) Unlogged(yield func(time.Time) bool) {
	for e := range j.past.table.all {
		if e.has(done) && !e.has(logged) {
			if r, err := readRecord(j.file, e.offset); err == nil && !yield(r.Start) {
				return
			}
		}
	}
}

// Missing returns the first few of the tasks that an earlier run began, that are not
// done, and that the Source has not returned; and their number.
func (j *Journal) Missing() (first []task.Facts, n int) {
	if j.cfg.Queue != nil || !j.past.used() {
		return nil, 0
	}
	for e := range j.past.table.all {
		if e.has(begun) && !e.has(done) && e.seen == 0 {
			if n++; n <= MaxMentioned {
				r, _ := readRecord(j.file, e.offset)
				first = append(first, r.Facts)
			}
		}
	}
	return first, n
}

// Unkept returns how many results of earlier runs were to be shown so far although
// their output was not kept.
func (j *Journal) Unkept() int64 { return j.unkept.Load() }
