package journal

import (
	"os"
	"path/filepath"
	"time"

	"crew/runner/task"
)

// Identity is what a task is recognized by in the directories of all runs: it is equal for
// tasks that do the same, or that make the same files.
type Identity = identity

// IdentityOf returns the identity of a task that is not one of a queue.
func IdentityOf(t *task.Task) Identity {
	same := *t
	if t.Makes != nil {
		makes := *t.Makes // whose stamp is set
		same.Makes = &makes
	}
	return new(hasher).of(&same)
}

// Times returns how long the tasks took that the journal of a directory knows. A run may be
// writing it meanwhile. The journal of a queue tells tasks apart by their numbers alone: of
// it, Times returns nil. Without a journal the error is fs.ErrNotExist.
func Times(dir string) (map[Identity]time.Duration, error) {
	f, err := os.Open(filepath.Join(dir, journalName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l, err := loadFile(f)
	if err != nil {
		return nil, err
	}
	defer l.table.close()
	if l.head.Queue != "" {
		return nil, nil
	}
	times := make(map[Identity]time.Duration, l.table.n)
	for e := range l.table.all {
		if e.duration > 0 {
			times[e.id] = time.Duration(float64(e.duration) * float64(time.Second))
		}
	}
	return times, l.table.err
}
