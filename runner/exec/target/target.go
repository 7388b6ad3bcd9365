// Package target looks after the files that tasks make (task.Making): it tells which are up
// to date, and has the others appear whole or not at all.
//
// A task makes a file under a temporary name in the target's directory. When the attempt
// has succeeded, the file is synced and renamed; otherwise it is removed. A temporary name
// is .crew-XXXXXXXX.BASE, where the Xs are digits of a number to the base 36: the first five
// are random and those of the run, the others count its attempts. While attempts of the run
// make files in a directory, the run's numbers are marked there (kernel.Mark). A mark ends with
// the process, however that ends, so a name whose number is not marked is a leftover. The next
// run that makes the same target removes it, except on network file systems: there marks are
// not seen by other machines.
package target

import (
	"sync"
	"time"

	"crew/runner/decide/task"
)

// Config says how files are made.
type Config struct {
	Dir         string // of tasks that have none; "" for crew's own
	Always      bool   // no target is up to date
	DryRun      bool   // nothing is made: Begin and End do nothing
	Directories bool   // targets may be directories; only with Journal, as after a crash nothing else tells one that is not whole
	Journal     bool   // what is made is recorded, so it needs a stamp

	Notice func(string) // shows a message to the user; may be nil
}

// Files looks after the files of a run. It is safe for concurrent use.
type Files struct {
	Config // as it was given to New
	dirs   dirs

	future sync.Once // says that the time of an input is in the future
	mu     sync.Mutex
	works  map[string][]out // by what begins the temporary names of an attempt
	would  map[string]bool  // with DryRun, what would have been made by now
}

// New returns the Files of a run.
func New(cfg Config) *Files {
	return &Files{Config: cfg, dirs: newDirs(), works: map[string][]out{}}
}

// Check returns the result of a task whose targets are up to date: all exist, none is older
// than an input, and if an earlier run has made them, it ran the same command on the same
// inputs. Otherwise it returns nil, and Why says what is not as it should be.
func (f *Files) Check(t *task.Task) *task.Result {
	m := t.Makes
	if m.Why = f.stale(t); m.Why != "" {
		return nil
	}
	if m.Done != nil {
		return m.Done
	}
	now := time.Now()
	made := m.Known == task.KnownMade
	return &task.Result{Task: t, Outcome: task.Skipped, Start: now, End: now, Earlier: made, Logged: made}
}
