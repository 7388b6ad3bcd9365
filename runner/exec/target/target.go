// Package target manages the files that tasks make (task.Making). It decides which are up to date, and
// makes the others appear completely or not at all.
//
// A task makes a file under a temporary name in the target's directory. If the attempt succeeds, the
// file is synced and renamed; otherwise it is removed. A temporary name is .crew-XXXXXXXX.BASE, where
// the Xs are digits of a number to the base 36: the first five are random and identify the run, the
// others count its attempts. While attempts of the run make files in a directory, the run's numbers are
// marked there (kernel.Mark). A mark ends with the process, however the process ends, so a name whose
// number is not marked is a leftover. The next run that makes the same target removes it, except on
// network file systems, where the marks of other machines cannot be seen.
package target

import (
	"math/rand/v2"
	"sync"
	"time"

	"crew/runner/decide/task"
)

// Config says how files are made.
type Config struct {
	Dir         string // working directory of tasks that name none; "" for crew's own
	Always      bool   // treat no target as up to date
	DryRun      bool   // nothing is made; Begin and End do nothing
	Directories bool   // targets may be directories; needs Journal, because after a crash only the journal tells that one is incomplete
	Journal     bool   // made targets are recorded, so they need a stamp
	FewThreads  bool   // sync the files of one attempt at a time, because each may block a thread

	Notice func(string) // shows a message to the user; may be nil
}

// Files manages the files of a run. It is safe for concurrent use.
type Files struct {
	Config
	dirs dirs

	future    sync.Once // for the notice that the time of an input is in the future
	mu        sync.Mutex
	begun     map[string][]out // running attempts, by the prefix of their temporary names
	pretended map[string]bool  // with DryRun, the files that would exist by now
}

// New returns the Files of a run.
func New(cfg Config) *Files {
	half := Descriptors() / 2
	syncs := half
	if cfg.FewThreads {
		syncs = 1
	}
	return &Files{
		Config: cfg, begun: map[string][]out{},
		dirs: dirs{first: rand.Int64N(numbers/perRun) * perRun, byID: map[[2]uint64]*dir{}, maxOpen: half, syncs: make(chan struct{}, syncs)},
	}
}

// Check returns the result of a task whose targets are up to date: all exist, none is older than an
// input, and if an earlier run made them, it ran the same command on the same inputs. Otherwise Check
// returns nil, and Why of the task's Makes gives the reason.
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
