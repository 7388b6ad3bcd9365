package sink

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"sync"

	"crew/runner/decide/task"
)

// claims holds which task writes each directory that is named by values. It is safe for concurrent use.
type claims struct {
	mu   sync.Mutex
	seed maphash.Seed
	by   map[uint64]identity // by the hash of the path
}

// identity tells a task from others that have the same directory.
type identity struct{ task, record uint64 }

// savedResult is the part of result.json that identifies the task.
type savedResult struct {
	Version             int
	Task                uint64
	Args, Fields, Block json.RawMessage
}

// readSaved reads a result.json. Another program's file is an error.
func readSaved(fsys fs.FS, path string) (saved savedResult, err error) {
	text, err := fs.ReadFile(fsys, path)
	if err == nil {
		err = json.Unmarshal(text, &saved)
	}
	if err == nil && (saved.Version == 0 || saved.Task == 0) {
		err = errors.New("not a result of crew")
	}
	return saved, err
}

func (c *claims) identity(saved savedResult) identity {
	record := fmt.Sprintf("%s\n%s\n%s", saved.Args, saved.Fields, saved.Block)
	return identity{saved.Task, maphash.String(c.seed, record)}
}

// Claim reserves the directory of a task with Named, for the first task that claims it. If the directory has
// the results of another task, of this or an earlier run, the task gets an Err. No files are written for a
// task with an Err. Claim is safe for concurrent use.
func (s *Results) Claim(t *task.Task) {
	if s.Named && t.Err == nil && !(s.Fed && t.Done != nil) {
		t.Err = s.claim(t)
	}
}

// claim returns an error if another task has the directory.
func (s *Results) claim(t *task.Task) error {
	var own savedResult
	_ = json.Unmarshal(append(s.object.appendFacts(nil, t, &task.Result{}), '}'), &own) // it is valid
	dir, c := s.pathOf(t), &s.claims
	id := c.identity(own)
	// again reports whether it was an earlier run of t. Clients of a fed run can add the same record twice.
	again := func(was identity) bool {
		return was.record == id.record && (was.task == id.task || t.Attempts > 0 || !s.Fed)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	hash := maphash.String(c.seed, dir)
	was, taken := c.by[hash]
	if taken = taken && was.task != t.ID && !(s.Fed && again(was)); !taken && (t.Done == nil || !t.Done.Logged) {
		saved, err := readSaved(os.DirFS(dir), "result.json")
		taken = !errors.Is(err, fs.ErrNotExist) && (err != nil || !again(c.identity(saved)))
	}
	if taken {
		return errors.New("the results of another task are in " + s.dirOf(t) + ": add {#} to --results, or remove that directory")
	}
	c.by[hash] = id
	return nil
}

// release lets other tasks claim the directory of a task in a fed run. From now on, result.json protects it.
func (s *Results) release(t *task.Task) {
	if s.Fed {
		s.claims.mu.Lock()
		delete(s.claims.by, maphash.String(s.claims.seed, s.pathOf(t)))
		s.claims.mu.Unlock()
	}
}
