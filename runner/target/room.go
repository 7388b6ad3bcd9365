package target

import (
	"fmt"
	"math"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/task"
)

// room bounds the directories that attempts hold open, one of each that they make files in:
// if they held all descriptors, none of them could start its command.
type room struct {
	most int // a quarter of the descriptors

	mu    sync.Mutex
	open  int
	freed chan struct{} // closed when open falls; nil if nobody waits for that
}

func newRoom() room {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return room{most: math.MaxInt}
	}
	return room{most: int(min(limit.Cur/4, math.MaxInt))}
}

// enter waits until there is room for n directories, or nothing is open, but not for long:
// the attempts of a persistent worker may wait for each other.
func (r *room) enter(n int) {
	var late <-chan time.Time
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.open > 0 && r.open+n > r.most {
		if late == nil {
			late = time.After(shortage)
		}
		if r.freed == nil {
			r.freed = make(chan struct{})
		}
		freed := r.freed
		r.mu.Unlock()
		select {
		case <-freed:
			r.mu.Lock()
		case <-late:
			r.mu.Lock()
			r.open += n
			return
		}
	}
	r.open += n
}

func (r *room) leave(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open -= n; r.freed != nil {
		close(r.freed)
		r.freed = nil
	}
}

// holds returns an error if there is never room for n directories.
func (r *room) holds(n int) error {
	if n/3 <= r.most {
		return nil
	}
	return fmt.Errorf("it makes files in %d directories, more than may be open: "+
		"raise the limit with ulimit -n, or give each task fewer records", n)
}

// directories returns in how many directories a task makes files under temporary names.
func directories(m *task.Making) int {
	if len(m.Targets) == 1 && m.Targets[0].Temp { // no map for most tasks
		return 1
	}
	seen := map[string]bool{}
	for _, target := range m.Targets {
		if target.Temp {
			seen[target.Path[:task.BaseIndex(target.Path)]] = true
		}
	}
	return len(seen)
}
