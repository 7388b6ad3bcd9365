// Package journal keeps the record of a run in a directory, so that the same
// command, started again, goes on where it stopped, however it was stopped.
//
// The record is lines of JSON that are only ever appended (see seal), and a file
// of outputs beside them. What is known to the journal is known for good: an
// attempt's start is on file before its process is there, and its end, with its
// output, before another attempt starts; so a kill -9 leaves at most as many tasks
// in doubt as there are workers. For that the run tells the journal (it is a
// runner.Recorder) after it has decided what an end means, and while the task
// still holds its slot. The sinks do the rest: one fsync for all that ended since
// the last makes results durable before they are shown (group commit), and once
// they are shown, and kept in joblog and results tree, the record says so.
package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"crew/runner/task"
)

// Config says what is recorded and what becomes of an earlier record.
type Config struct {
	Dir     string // made where it is missing
	Command Command
	Past    Past
	Output  Output

	// SameCommand says that a command that cannot be executed for one task ends
	// the run. That is no end of the task: the next run tries it again.
	SameCommand bool
	// Notice is told what a person should know; it may be nil.
	Notice func(string)
	// Slack is how many bytes more than are needed a file may hold, beside as
	// many as are needed, before it is compacted.
	Slack int64
}

// Past says what becomes of tasks that an earlier run has finished.
type Past struct {
	Replay      bool // their results are shown once more
	RetryFailed bool // those that failed run again
	Reset       bool // all of them run again
	Costs       bool // Source sets the cost of a task to how long it took
}

// DifferentCommand is the error of Open where the directory is of another
// command.
type DifferentCommand struct {
	Dir      string
	Was, Now Command
}

// Error shows where they differ.
func (e *DifferentCommand) Error() string {
	was, now := e.Was.Line, e.Now.Line
	if was == now {
		was, now = "run in "+e.Was.Dir, "run in "+e.Now.Dir
	}
	return fmt.Sprintf("%s is of another command: it was %s, this is %s; begin anew with --state-reset, or give another directory",
		e.Dir, was, now)
}

// ForeignDir is the error of Open where a directory without a journal holds
// something else.
type ForeignDir struct{ Dir string }

// Error says so.
func (e *ForeignDir) Error() string {
	return e.Dir + " is not empty and holds no journal: give a directory of its own"
}

// Journal is the open record of a run. Its Source is for one goroutine and its
// sinks are for one; Started, Ended and Close are safe for concurrent use.
type Journal struct {
	// configuration

	cfg  Config
	path string

	// what earlier runs have left, for the Source alone

	past    *loaded
	resumed bool
	unkept  atomic.Int64 // results given to be shown once more whose outputs were not kept

	// of the sinks' goroutine

	logsFailed bool
	synced     time.Time     // when the last sync was over
	pause      time.Duration // least time between two

	// what is written

	lock  *os.File
	out   outputs
	file  *os.File
	lines sync.Pool // of *[]byte

	mu      sync.Mutex
	waiting []byte // lines to be written with the next ones
	end     int64  // of what is good in file
	room    int64  // up to where the disk has set bytes aside for it
	dirty   bool   // something was written since the last sync
	fault   error  // the first: nothing but notes is written after it
	closed  bool
}

// Open makes or continues the journal of a directory and takes its lock. An
// error is a *DifferentCommand or *ForeignDir where the caller has to decide, else
// what the directory could not do.
func Open(cfg Config) (*Journal, error) {
	j, err := open(cfg)
	switch err.(type) {
	case nil, *DifferentCommand, *ForeignDir, *versionError, *damagedHead:
		return j, err
	}
	return nil, fmt.Errorf("open state: %w", err)
}

func open(cfg Config) (*Journal, error) {
	if err := os.MkdirAll(cfg.Dir, 0o777); err != nil {
		return nil, err
	}
	if err := ours(cfg.Dir); err != nil {
		return nil, err
	}
	lock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	j := &Journal{cfg: cfg, lock: lock, path: filepath.Join(cfg.Dir, journalName), pause: usualPause}
	j.lines.New = func() any { return new([]byte) }
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

// ours says no to a directory that is somebody else's.
func ours(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	foreign := false
	for _, e := range entries {
		switch name := e.Name(); {
		case name == journalName:
			return nil
		case name == lockName, name == newName, isOutput(name):
		default:
			foreign = true
		}
	}
	if foreign {
		return &ForeignDir{dir}
	}
	return nil
}

func isOutput(name string) bool {
	digits, is := strings.CutPrefix(name, outputPrefix)
	return is && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// openFiles sees to it that there is a journal of this command, and loads it.
func (j *Journal) openFiles() error {
	l, f, err := j.load()
	if err == nil && !j.cfg.Past.Reset {
		j.resumed = true
		l, f, err = j.goOn(l, f)
	} else {
		l, f, err = j.beginAnew(l, f, err)
	}
	if err != nil {
		return err
	}
	j.past, j.file, j.end = l, f, l.scanned.end
	if err := f.Truncate(j.end); err != nil {
		return err
	}
	return j.openOutputs()
}

// goOn takes over the journal of an earlier run of the same command.
func (j *Journal) goOn(l *loaded, f *os.File) (*loaded, *os.File, error) {
	if l.head.Sum != j.cfg.Command.sum() {
		l.table.close()
		f.Close()
		return nil, nil, &DifferentCommand{j.cfg.Dir, Command{l.head.Command, l.head.Dir}, j.cfg.Command}
	}
	if l.scanned.damage.Lines > 0 {
		j.notice(j.path + ": " + l.scanned.damage.String())
	}
	if !j.compact(f, l) {
		return l, f, nil
	}
	l.table.close()
	f.Close()
	return j.loadNew()
}

// beginAnew makes a journal where there is none, or in the place of one; bad is
// why that one could not be loaded.
func (j *Journal) beginAnew(l *loaded, f *os.File, bad error) (*loaded, *os.File, error) {
	var other *versionError
	var damaged *damagedHead
	switch {
	case bad == nil:
		f.Close()
	case errors.Is(bad, fs.ErrNotExist):
	case j.cfg.Past.Reset && (errors.As(bad, &other) || errors.As(bad, &damaged)):
	default:
		return nil, nil, bad
	}
	err := anew(j.cfg.Dir, j.cfg.Command, l)
	if l != nil {
		l.table.close()
	}
	if err != nil {
		return nil, nil, err
	}
	return j.loadNew()
}

// loadNew loads a journal that has just been put into its place, once it is sure
// to stay there.
func (j *Journal) loadNew() (*loaded, *os.File, error) {
	if err := syncDir(j.cfg.Dir); err != nil {
		return nil, nil, err
	}
	return j.load()
}

func (j *Journal) load() (*loaded, *os.File, error) {
	f, err := os.OpenFile(j.path, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	l, err := loadFile(f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return l, f, nil
}

// compact makes files that hold much more than is needed as small as they can
// be, and says whether it did. Where that does not work out they stay as they
// are.
func (j *Journal) compact(f *os.File, l *loaded) bool {
	wasteful := func(size, needed int64) bool { return size > 2*needed+j.cfg.Slack }
	size := int64(0)
	if st, err := os.Stat(filepath.Join(j.cfg.Dir, l.head.Output)); err == nil {
		size = st.Size()
	}
	withOutputs := wasteful(size, l.outputs)
	if !withOutputs && !wasteful(l.scanned.end, l.needed) {
		return false
	}
	return compact(j.cfg.Dir, j.cfg.Command, f, l, withOutputs) == nil
}

// openOutputs opens the file of outputs and removes what a crash has left
// beside it.
func (j *Journal) openOutputs() error {
	name := j.past.head.Output
	if !isOutput(name) {
		return &damagedHead{j.path}
	}
	entries, err := os.ReadDir(j.cfg.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == newName || isOutput(e.Name()) && e.Name() != name {
			_ = os.Remove(filepath.Join(j.cfg.Dir, e.Name()))
		}
	}
	if j.out.file, err = os.OpenFile(filepath.Join(j.cfg.Dir, name), os.O_RDWR|os.O_CREATE, 0o666); err != nil {
		return err
	}
	j.out.end = j.past.outEnd
	return j.out.file.Truncate(j.out.end)
}

// begin writes that a run begins, and which tasks the last one left running.
func (j *Journal) begin() error {
	b := begin(nil, evRun)
	b = task.AppendTime(b, "at", time.Now())
	b = task.AppendInt(b, "pid", int64(os.Getpid()))
	b = task.AppendInt(b, "done", int64(j.past.tasks))
	if len(j.past.running) > 0 {
		b = append(b, `,"interrupted":[`...)
		n := 0
		for id := range j.past.running {
			if n++; n > idsInLine {
				break
			}
			b = append(append(appendID(append(b, '"'), id), '"'), ',')
		}
		b[len(b)-1] = ']'
	}
	return j.append(seal(b, 0))
}

// idsInLine is how many tasks one line names at most.
const idsInLine = 4000

// Resumed is what an earlier run of the same command has left.
type Resumed struct {
	Tasks       int // that are done
	Failed      int // of these
	Interrupted int // that ran when it was stopped
}

// Resumed says what an earlier run has left. ok is false where there was none, or
// where it had begun no task.
func (j *Journal) Resumed() (r Resumed, ok bool) {
	return Resumed{j.past.tasks, j.past.failed, len(j.past.running)}, j.resumed && j.past.used
}

// LogAll has every result of earlier runs logged once more, by this run or, if it
// does not come to that, by later ones. It is called before the Source is used
// and before the joblog or the results tree begins anew.
func (j *Journal) LogAll() error {
	j.past.table.clear(logged)
	return j.append(seal(begin(nil, evUnlogged), 0))
}

// Unlogged is the starts of the tasks that earlier runs have finished and that
// joblog and results tree may lack, an iter.Seq. It is called before the Source is
// used.
func (j *Journal) Unlogged(yield func(time.Time) bool) {
	more := true
	j.past.table.all(func(e *entry) {
		if more && e.has(done) && !e.has(logged) {
			if r := recordAt(j.file, e.at()); r != nil {
				more = yield(r.Start)
			}
		}
	})
}

// Missing are tasks that an earlier run had begun, that are not done, and that the
// Source has not given: the first few, and how many there are.
func (j *Journal) Missing() (first []Mention, n int) {
	j.past.table.all(func(e *entry) {
		if !e.has(begun) || e.has(done) || e.seen > 0 {
			return
		}
		if n++; n <= mentions {
			first = append(first, mention(j.file, e.at()))
		}
	})
	return first, n
}

// Unkept is how many results of earlier runs were to be shown so far without
// what their tasks wrote: that had not been kept. It is safe for concurrent use.
func (j *Journal) Unkept() int64 { return j.unkept.Load() }

func (j *Journal) notice(text string) {
	if j.cfg.Notice != nil {
		j.cfg.Notice(text)
	}
}
