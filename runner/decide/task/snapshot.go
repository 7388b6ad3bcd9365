package task

import (
	_ "embed" // the texts
	"io"
	"strings"
	"sync"
	"text/template"
	"time"
)

// Snapshot is the state of a run at one moment. It belongs to the caller.
type Snapshot struct {
	At       time.Time  `json:"at"`
	State    State      `json:"-"`
	Stats    Stats      `json:"-"`
	Slots    []Slot     `json:"workers"`            // by ID
	Tasks    []Where    `json:"tasks"`              // running tasks, by slot and task
	Waiting  []Blocking `json:"waits"`              // waiting tasks by cause, the largest group first
	Blocking *Blocking  `json:"blocking,omitempty"` // why nothing starts; nil if something can start or only running tasks are left
	Queued   int        `json:"queued"`             // tasks read ahead that wait for a slot or their key
	Buffer   int        `json:"buffer"`             // how many tasks may be read ahead
	Aside    int        `json:"aside"`              // tasks that wait for something else: a retry, a limit or other tasks
	Edits    int64      `json:"edits,omitempty"`    // how often a waiting task was held, released or moved
}

// Live is the output of an attempt, which may still grow. Its methods are safe for concurrent use with
// each other and with the attempt.
type Live interface {
	// ReadAt reads output that has been written so far. io.EOF means that there is no more output yet or,
	// once the attempt has ended, at all.
	io.ReaderAt
	// Close releases the output. It stays readable until then, even if the run no longer needs it.
	Close() error
}

// State is how far a run has come.
type State uint8

// The states of a run, in order. A run goes back only from StatePaused.
const (
	StateRunning   State = iota
	StatePaused          // starts nothing until it is resumed
	StateFinishing       // reads no more tasks; runs all tasks that were read
	StateDraining        // starts nothing more; running attempts may finish
	StateStopping        // running attempts are asked to end
	StateDone            // all tasks are finished; results are still being shown
)

// String returns the state's name.
func (s State) String() string {
	return [...]string{"running", "paused", "draining", "draining", "stopping", "done"}[s]
}

// Cause says what tasks wait for. Clients see its value.
type Cause string

// The causes.
const (
	ByPause   Cause = "pause"    // the run is paused or suspended
	ByEnd     Cause = "end"      // the run drains
	BySlots   Cause = "workers"  // a free slot
	BySlot    Cause = "worker"   // a certain slot
	ByKey     Cause = "key"      // tasks of the same key, which run one at a time
	ByLimit   Cause = "limit"    // --per-key
	ByRetry   Cause = "retry"    // the time of their next attempt
	ByDelay   Cause = "delay"    // --delay or --jitter
	ByOrder   Cause = "order"    // with --keep-order, the first unfinished task
	ByReader  Cause = "reader"   // the reader of crew's output
	ByInput   Cause = "input"    // the next record
	ByAfter   Cause = "after"    // tasks that must succeed or end first
	ByWorkers Cause = "ends"     // the end of persistent workers, at the end of the run
	ByTokens  Cause = "token"    // a token of make's jobserver
	ByCheck   Cause = "check"    // the check whether their targets are up to date
	ByHold    Cause = "hold"     // their release, by hand
	ByTime    Cause = "time"     // a time of the day
	ByRate    Cause = "rate"     // --rate
	ByKeyRate Cause = "key-rate" // --key-rate
	ByNeeds   Cause = "needs"    // units of named limits
	ByOffers  Cause = "offers"   // a worker that offers what they need
	ByPlaces  Cause = "places"   // several places, or places reserved for another task
	ByLoad    Cause = "load"     // --load
	ByMemory  Cause = "memory"   // --memfree
)

// Blocking describes what tasks wait for.
type Blocking struct {
	By    Cause  `json:"by"`
	Shown string `json:"text"`             // b.Text, in the copies that WithText returns
	Tasks int    `json:"tasks"`            // number of waiting tasks or, for ByWorkers, of workers
	Input bool   `json:"input,omitempty"`  // nothing more is read because the read-ahead is full
	None  bool   `json:"-"`                // for BySlots: there is no slot at all; for ByKey: no slot has the key as a label; always set for ByOffers
	Key   Bytes  `json:"key,omitempty"`    // for ByKey, ByLimit and ByKeyRate; for BySlots if all tasks have the same key
	Slot  int    `json:"worker,omitempty"` // for BySlot and ByKey
	Limit int    `json:"limit,omitempty"`  // for ByLimit: how many tasks of the key may run at once; for ByPlaces: number of places
	Needs string `json:"-"`                // for ByNeeds and ByOffers: needs of the first task
	Halt  string `json:"-"`                // for ByPause: the value of --halt that paused the run, or ""
	// ID is, for ByOrder, the first unfinished task; for ByPlaces, the task that the places are reserved
	// for, or 0; for ByAfter and ByKey, a task waited for, or 0.
	ID    uint64    `json:"task,omitempty"`
	Until time.Time `json:"until,omitzero"` // for ByRetry, ByDelay, ByRate and ByTime: when the first task may start

	// Figure is, for ByLoad and ByMemory, the load or the free bytes. Bound is the value that it has
	// to fall below or to reach.
	Figure, Bound float64 `json:"-"`
}

// WithText returns a copy of b with Shown set, and nil for nil.
func (b *Blocking) WithText(now time.Time) *Blocking {
	if b == nil {
		return nil
	}
	with := *b
	with.Shown = b.Text(now)
	return &with
}

// Why returns Shown without the tasks that wait, as in "for a worker", and whether it named them.
func (b *Blocking) Why() (why string, tasks bool) {
	who := Count(int64(b.Tasks), "task") + " "
	if b.Key != "" {
		who += "of key " + string(b.Key) + " "
	}
	verb, tasks := strings.CutPrefix(b.Shown, who)
	if !tasks {
		return b.Shown, false
	}
	_, why, _ = strings.Cut(verb, " ") // wait, waits, is or are
	return why, true
}

// Text describes b for people, without "crew: ". Only ByRetry, ByDelay and ByRate use now.
func (b Blocking) Text(now time.Time) string {
	var text strings.Builder
	if b.Input {
		text.WriteString("input waits: ")
	}
	data := struct {
		*Blocking
		Left time.Duration
	}{&b, max(b.Until.Sub(now), 0).Round(time.Second)}
	if err := blockingTexts().ExecuteTemplate(&text, string(b.By), data); err != nil {
		panic("internal error: " + err.Error())
	}
	return text.String()
}

// blockingText has a template for each cause.
//
//go:embed blocking.txt
var blockingText string

var blockingTexts = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{
		"count":  func(n int, thing string) string { return Count(int64(n), thing) },
		"moment": Moment,
		"size":   func(n float64) string { return Size(int64(n)) },
	}).Parse(blockingText))
})
