// Package journal records a run in a directory, so that the same command can resume it, however it
// stopped.
//
// The journal is an append-only file of JSON lines (see seal) next to a file of task outputs. Both
// are compacted once they waste much space. The start of an attempt is in the file before its
// process exists, and its end, with its output, before the next attempt starts in the same slot. So
// after a kill -9, at most one task per worker is in doubt. To make this possible, the Journal is a
// runner.Recorder: the run reports the start and the end of each attempt to it.
//
// A queue has no input to read again, so its journal holds the tasks themselves (see
// Journal.Accept) and is also compacted during the run.
//
// The package has three sinks. Commit makes results durable before they are shown, with one fsync
// for all results that ended since the last one (group commit). Shown records which results were
// shown, and Logs which results are in the joblog and the results tree.
package journal

import (
	"errors"
	"fmt"
	"io"
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

	// SameCommand means that all tasks run the same program, so the run ends if that cannot be
	// executed. The tasks that it could not be executed for are not done, and the next run tries
	// them again.
	SameCommand bool
	// Notice prints a message for the user.
	Notice func(string)
	// Slack is how many bytes a file may exceed twice its needed size before it is compacted.
	Slack int64
	// Queue is non-nil for the journal of a queue.
	Queue *Queue
}

// Resume says how to treat tasks that earlier runs finished.
type Resume struct {
	Replay      bool // show their results again
	Recall      bool // reload full results even if they were shown (for --json or --junit)
	RetryFailed bool // run failed tasks again
	Reset       bool // run all tasks again
	Changed     bool // run all tasks again if a program has changed
	Costs       bool // set the Cost of tasks without one to their last duration
}

// Output says where results go besides the journal.
type Output struct {
	Plan        task.Plan
	Logs        bool // results also go to a joblog or a results tree, through Journal.Logs
	MaybeClosed bool // stdout may be closed, so results are never recorded as shown

	// All means that the journal keeps every result, even if the run did not finish the task. A task that
	// the user has cancelled is done. Other processes may read the files, so there is no compaction.
	All bool
}

// shownAtEnd reports whether a result counts as shown as soon as its task ends.
func (o *Output) shownAtEnd() bool { return o.Plan.Streams() && !o.Plan.Order && !o.MaybeClosed }

// settledFlags returns the flags of a result that needs nothing more.
func (o *Output) settledFlags() (f flags) {
	if !o.MaybeClosed {
		f = shown
	}
	if o.Logs {
		f |= logged
	}
	return f
}

// InUse is the error of Open if another run has locked the directory.
type InUse struct {
	Dir string
	PID int // 0 if the process is in another PID namespace
}

// Error names the directory and the process that uses it.
func (e *InUse) Error() string {
	if e.PID == 0 {
		return e.Dir + " is in use by another crew"
	}
	return fmt.Sprintf("%s is in use by crew, process %d", e.Dir, e.PID)
}

// WrongDir is the error of Open if the directory belongs to another command or another user, or
// contains files that are not part of a journal. The user has to decide.
type WrongDir struct{ text string }

// Error describes the problem and the possible solutions.
func (e *WrongDir) Error() string { return e.text }

// Journal is the open journal of a run. Its Source is for one goroutine, as are its sinks. Started,
// Ended, Idle, Unkept, EndedTasks, Accept, Change, Withdraw, LastID and Close are safe for
// concurrent use.
type Journal struct {
	// configuration

	cfg Config

	// earlier runs; used by Open, then by the Source, and closed with tableMu held

	tableMu  sync.Mutex // guards the table, so that Close need not wait until the Source ends
	contents *contents
	unkept   atomic.Int64 // results to be shown again without kept outputs

	programs        []string // when this journal got its first task
	changedPrograms []string // paths of the programs that have changed since then

	// recording

	readMu sync.Mutex // held while EndedTasks reads the journal

	runOffset int64 // it reads from here on
	lock      *os.File
	out       *outputs // replaced only with readMu, saveMu, syncMu and mu held
	file      *os.File

	mu      sync.Mutex
	pending []byte // lines to be written together with the next ones
	end     int64  // offset after the last line in file
	dirty   bool   // file was written to since the last sync
	closed  bool

	fault atomic.Pointer[error] // the first error; after it, only notes are written

	syncMu  sync.Mutex   // held while file is synced or replaced; locked before mu
	saveMu  sync.RWMutex // read-locked while an output and its line are written; locked before mu
	queueID queueID
	deliveries

	compactor compactor
}

// Open opens the journal in a directory, or creates it, and locks the directory. The error is a
// *WrongDir if the directory belongs to another command or user, and an *InUse if another run has
// locked it.
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
	j := &Journal{cfg: cfg, out: &outputs{}}
	err := j.takeLock()
	if err == nil {
		err = j.openFiles()
	}
	if err != nil {
		j.Close()
		return nil, err
	}
	if j.cfg.Queue == nil && !j.cfg.Output.All {
		j.runOffset = j.end
	}
	return j, nil
}

// Exists reports whether the directory holds a journal.
func Exists(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, journalName))
	return err == nil
}

// checkDir returns an error if the directory has other files and no journal.
func checkDir(dir string) error {
	if Exists(dir) {
		return nil
	}
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if _, ok := outputNumber(e.Name()); !ok && e.Name() != lockName && e.Name() != newName {
			return &WrongDir{dir + " is not empty and holds no journal: use an empty directory"}
		}
	}
	return err
}

// openFiles loads the journal and opens its file of outputs. First it creates or compacts the
// journal if necessary.
func (j *Journal) openFiles() error {
	f, err := j.openFile(journalName, 0)
	if err == nil {
		j.file = f
		err = j.load()
	}
	_, unknown := errors.AsType[*headError](err)
	switch reset := j.cfg.Resume.Reset; {
	case err == nil && !reset:
		if err = j.resume(); err == nil {
			err = j.checkPrograms()
		}
	case err == nil, errors.Is(err, fs.ErrNotExist), unknown && reset:
		err = j.startOver()
	}
	if err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(j.cfg.Dir, newName)) // a crash may have left it
	return j.file.Truncate(j.end)                    // drop an incomplete line
}

// openFile opens a file for reading and writing, with more flags such as os.O_CREATE. No other user
// may be able to write it. Files of a queue become unreadable for other users, whatever their mode was.
func (j *Journal) openFile(name string, flags int) (*os.File, error) {
	mode := os.FileMode(0o644)
	if j.cfg.Queue != nil {
		mode = 0o600
	}
	f, err := trust.OpenOwn(filepath.Join(j.cfg.Dir, name), os.O_RDWR|flags, mode)
	if err == nil && j.cfg.Queue != nil {
		if err = f.Chmod(mode); err != nil {
			f.Close()
		}
	}
	return f, err
}

// load loads the journal, or reloads it after it was replaced, and opens its outputs. It returns an
// error if the journal is a queue's and this run is not, or the reverse.
func (j *Journal) load() error {
	size, err := j.file.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	l, err := j.loadContents(size)
	if err != nil {
		return err
	}
	if j.contents != nil {
		j.contents.table.close()
	}
	j.contents, j.end, j.deliveries = l, l.scan.end, l.deliveries
	j.compactor.needed, j.compactor.outputs = l.needed, l.outputs
	j.queueID = queueID(l.head.Queue)
	if queue := l.head.Queue > 0; queue != (j.cfg.Queue != nil) {
		what := "a run, not a queue of crew serve"
		if queue {
			what = "a queue of crew serve"
		}
		return &WrongDir{j.cfg.Dir + " holds " + what + ": give another directory"}
	}
	out, err := j.openOutputs(l.head.Outputs, l.outEnd)
	if err == nil {
		_ = j.out.file.Close() // may be nil
		j.out = out
		j.removeOtherOutputs(out)
	}
	if err == nil && l.Unshown > 0 { // outputs must be durable before they are shown
		err = out.sync()
	}
	return err
}

// resume checks that the loaded journal belongs to this command, and compacts it if it wastes much
// space. A queue may change its command if no task waits. If the compaction fails, the journal
// stays as it is.
func (j *Journal) resume() error {
	l := j.contents
	queue, waiting, changed := j.cfg.Queue != nil, l.Waiting+l.Running, !j.cfg.Command.matches(l.head)
	if changed && (!queue || waiting > 0) {
		was, now := string(l.head.Command), j.cfg.Command.Line
		if was == now {
			was, now = "run in "+string(l.head.Dir), "run in "+j.cfg.Command.Dir
		}
		hint := "start over with --state-reset, or give another directory"
		if queue {
			hint = task.Count(int64(waiting), "task") + " still to run: finish with the former command, or give another directory"
		}
		return &WrongDir{fmt.Sprintf("%s belongs to another command: it was %s, this is %s; %s", j.cfg.Dir, was, now, hint)}
	}
	if damage := l.scan.damage(); damage != "" {
		j.cfg.Notice(j.file.Name() + ": " + damage)
	}
	if !j.wastesSpaceLocked() && !changed {
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

// checkPrograms finds the programs that have changed since the recorded tasks ran, and starts over
// if Resume.Changed is set.
func (j *Journal) checkPrograms() error {
	now := j.cfg.Command.Programs
	if before := j.contents.run.Programs; j.contents.used() && before != "" {
		j.programs = strings.Split(string(before), "\n")
	}
	for _, p := range j.programs {
		if _, path, _ := strings.Cut(p, " "); !slices.Contains(now, p) {
			j.changedPrograms = append(j.changedPrograms, path)
		}
	}
	if len(j.changedPrograms) == 0 || !j.cfg.Resume.Changed {
		return nil
	}
	j.programs = nil
	return j.startOver()
}

// ChangedPrograms returns the paths of the programs that have changed since the recorded tasks ran.
func (j *Journal) ChangedPrograms() []string { return j.changedPrograms }

// Begin records that a run begins. Until then, the journal describes the run before.
func (j *Journal) Begin() error {
	if j.programs == nil {
		j.programs = j.cfg.Command.Programs
	}
	return j.append(true, func(b []byte) []byte {
		b = task.AppendTime(beginLine(b, evRun), "at", time.Now())
		b = task.AppendInt(b, "pid", int64(os.Getpid()))
		b = task.AppendInt(b, "done", int64(j.contents.Done))
		if len(j.programs) > 0 {
			b = task.AppendText(b, "programs", strings.Join(j.programs, "\n"))
		}
		return b
	})
}

// Close closes the files and unlocks the directory. Further calls do nothing.
func (j *Journal) Close() error {
	j.mu.Lock()
	j.compactor.stopping.Store(true)
	j.mu.Unlock()
	j.compactor.running.Wait()
	j.syncMu.Lock()
	defer j.syncMu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return nil
	}
	_ = j.flushLocked()
	j.closed = true
	if j.contents != nil {
		j.tableMu.Lock()
		j.contents.table.close()
		j.tableMu.Unlock()
	}
	_ = j.file.Close() // may be nil
	_ = j.out.file.Close()
	_ = j.lock.Close()
	return nil
}

// Resumed returns the counts of the tasks that earlier runs left. ok is false if there are none.
func (j *Journal) Resumed() (c Counts, ok bool) {
	return j.contents.Counts, j.contents.used() || j.contents.Waiting > 0
}

// ClearLogged records that no result is in the joblog or the results tree any more, so this run or
// a later one logs all of them again. Call it before using the Source, and before truncating the
// joblog or the results tree.
func (j *Journal) ClearLogged() error {
	j.contents.table.clearFlags(logged)
	_ = j.append(false, func(b []byte) []byte { return beginLine(b, evUnlogged) })
	return j.sync()
}

// Unlogged is an iter.Seq of the start times of tasks that earlier runs finished and that may be
// missing from the joblog or the results tree. Use it before the Source.
func (j *Journal) Unlogged(yield func(time.Time) bool) {
	for e := range j.contents.table.all {
		if e.has(done) && !e.has(logged) {
			if r, err := readRecord(j.file, e.offset); err == nil && !yield(r.Start) {
				return
			}
		}
	}
}

// Missing returns the number of tasks that an earlier run began but did not finish and that the
// Source has not returned, and the first MaxMentioned of them.
func (j *Journal) Missing() (first []task.Facts, n int) {
	if j.cfg.Queue != nil || !j.contents.used() {
		return nil, 0
	}
	for e := range j.contents.table.all {
		if e.has(begun) && !e.has(done) && e.seen == 0 {
			if n++; n <= MaxMentioned {
				r, _ := readRecord(j.file, e.offset)
				first = append(first, r.Facts)
			}
		}
	}
	return first, n
}

// Unkept returns how many results of earlier runs should have been shown so far, but had no kept
// output.
func (j *Journal) Unkept() int64 { return j.unkept.Load() }
