package journal

import (
	"io"
	"math"
	"path/filepath"
	"slices"

	"crew/runner/task"
)

// Past returns what is recorded of tasks that have ended, as far as it is known: in a
// queue of any that is not forgotten, otherwise of those of this run. It reads the
// journal, so it takes the longer the longer that is; calls wait for one another.
func (j *Journal) Past(ids ...uint64) map[uint64]task.Past {
	j.reading.Lock()
	defer j.reading.Unlock()
	j.Idle() // writes what it is to find
	found := map[uint64]task.Past{}
	f, err := openFile(filepath.Join(j.cfg.Dir, journalName), 0, j.cfg.Queue != nil) // j.file may be replaced meanwhile
	if err != nil {
		return nil
	}
	defer f.Close()
	var s scanned
	for ln := range s.lines(io.NewSectionReader(f, j.began, math.MaxInt64-j.began)) {
		if len(found) == len(ids) {
			break
		}
		if event(ln.body) != evEnded {
			continue
		}
		id := number(ln.body, "task")
		if !slices.Contains(ids, id) {
			continue
		}
		if r, err := parse(ln.body); err == nil && isDone(r.Outcome) {
			p := task.Past{Facts: r.Facts, Kept: !r.Streamed && !r.Dropped}
			if p.Kept {
				p.Outputs = [2]task.Live{j.out.find(r.Stdout), j.out.find(r.Stderr)}
			}
			found[id] = p
		}
	}
	return found
}
