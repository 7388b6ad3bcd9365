package task

import (
	"fmt"
	"time"
)

// Snapshot is what a run does at one moment: what runs where and since when,
// what waits for what, and the totals. It belongs to whoever asked for it.
type Snapshot struct {
	At       time.Time
	State    State
	Stats    Stats
	Slots    []Slot     // by ID
	Running  []Running  // by slot and task
	Waiting  []Blocking // groups of unfinished tasks that do not run, the largest first
	Blocking *Blocking  // why nothing starts; nil where something would, or nothing is left to start
}

// State is how far a run is.
type State uint8

// The states of a run. Each but Paused is followed by those after it alone.
const (
	Going    State = iota // reads and starts
	Paused                // starts nothing until it is resumed
	Drains                // starts nothing more, what runs may finish
	Stops                 // ends what runs
	Finishes              // every task has its outcome; results are still being shown
)

// String is the state's name.
func (s State) String() string {
	return [...]string{"running", "paused", "draining", "stopping", "finishing"}[s]
}

// Running is an attempt that runs.
type Running struct {
	ID      uint64 // the task's
	Key     string
	Slot    int
	Attempt int
	Since   time.Time
}

// Cause is what tasks wait for.
type Cause uint8

// The causes.
const (
	ByPause  Cause = iota + 1 // the run is paused or suspended
	ByEnd                     // the run drains
	BySlots                   // any slot: all are busy, or there is none
	BySlot                    // the one slot that they belong to
	ByKey                     // tasks of their key, which go one at a time
	ByLimit                   // --per-key
	ByRetry                   // the time of their next attempt
	ByDelay                   // --delay
	ByOrder                   // with --keep-order, the first task that has not finished
	ByReader                  // whoever reads crew's output
	ByInput                   // the next record
)

// Blocking says what tasks wait for.
type Blocking struct {
	By    Cause
	Tasks int       // how many wait
	Input bool      // for want of room nothing more is read
	Key   string    // of ByKey and ByLimit
	Slot  int       // of BySlot and ByKey
	Limit int       // of ByLimit: how many of the key may run at once
	ID    uint64    // of ByOrder: the task that is waited for
	Until time.Time // of ByRetry and ByDelay: when the first may start
}

// Text says it in words, without "crew: ". The time matters to ByRetry and
// ByDelay alone.
func (b *Blocking) Text(now time.Time) string {
	text := b.what(max(b.Until.Sub(now), 0).Round(time.Second))
	if b.Input {
		return "input waits: " + text
	}
	return text
}

func (b *Blocking) what(left time.Duration) string {
	n := fmt.Sprintf("%d tasks", b.Tasks)
	wait := " wait"
	if b.Tasks == 1 {
		n, wait = "1 task", " waits"
	}
	switch b.By {
	case ByPause:
		return "paused"
	case ByEnd:
		return "nothing more starts"
	case BySlots:
		return n + wait + " for a worker"
	case BySlot:
		return fmt.Sprintf("%s%s for worker %d", n, wait, b.Slot)
	case ByKey:
		return fmt.Sprintf("%s of key %s%s for worker %d", n, b.Key, wait, b.Slot)
	case ByLimit:
		return fmt.Sprintf("%s of key %s%s for the %d of that key that may run at once", n, b.Key, wait, b.Limit)
	case ByRetry:
		return fmt.Sprintf("%s%s for a retry, the next in %v", n, wait, left)
	case ByDelay:
		return fmt.Sprintf("%s%s for --delay, the next %v", n, wait, left)
	case ByOrder:
		return fmt.Sprintf("results wait for task %d", b.ID)
	case ByReader:
		return "output waits for its reader"
	}
	return "waiting for input"
}
