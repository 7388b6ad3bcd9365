// Package task defines the data of a run: tasks, attempts, results, events, and
// commands with their replies.
//
// All of it is plain data, and nothing is safe for concurrent modification. A Task
// is not modified once the run has admitted it, so any goroutine may read it.
package task

import (
	"cmp"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Task is the work of one command invocation: one record, or several with -n. All
// but Done, Err and Block can be sent to another process or host.
type Task struct {
	// identity

	ID  uint64 // number in input order, from 1 without gaps; {#} and CREW_SEQ
	Key string // for the policy and limits; empty without --key

	// from the journal

	Identity [16]byte        // the same in every run; zero if the task is not recorded
	Done     *Result         // its result in an earlier run; nil if it has to run
	Attempts int             // number of attempts that ended in earlier runs; numbering continues from there
	History  *AttemptHistory `json:"-"` // results of those attempts, as far as known; may be nil

	// what to run

	Argv   []string // the command as people see it; does the same as Exec
	Exec   []string // the command to run: a script with its values as arguments; nil means Argv
	Env    []string // additions to the environment, "NAME=value"
	Dir    string   // working directory; empty means the run's
	Stdin  []byte   // standard input; nil means /dev/null
	Block  *Block   `json:"-"` // standard input instead of Stdin; may be nil
	Shell  bool     // Argv is a shell, its option and one script made by crew
	NoArgs bool     // Argv uses nothing of Records: -n0
	Bare   bool     // Env is the whole environment, except Variables

	// Protocol is how a persistent worker with this command reads the task; NoProtocol means a process
	// of its own. Next to the flags, it keeps the size of Task within 352 bytes: the next allocation
	// size, 384, makes crew itself take 1.04 times as long for a record of a persistent worker.
	Protocol Protocol

	Failures int32 // how many of Attempts used up a retry

	Makes *Making // files that it makes; nil for none

	// how to run it

	Cost      int64         // weight for the policy; less than 1 counts as 1, 0 means unknown
	Timeout   time.Duration // of each attempt; 0 means the run's, negative none
	KillAfter time.Duration // from asking an attempt to end to killing it; 0 means the run's
	Asked     *Terms        // nil for the zero Terms
	Origin    *Origin       // the attempt of another run that the task carries out; nil for none
	Turn      string        // tasks with the same one run one after another, with Queue.PerKey; "" stands for Key

	// how to show it

	Records [][]string // its records, each split into columns
	Object  string     // the JSON object of its record, with --input json
	Tag     string     // prefix of its output lines
	Marks   []Mark     // marks in Tag, Argv and Exec; within a word, in order
	Err     error      // why it cannot run at all; it finishes as StartFailed
}

// Terms say when a task may start, what it takes to run, and how its user names it.
type Terms struct {
	After    []uint64 `json:"after,omitempty"`     // tasks, with lower IDs, that must have succeeded first
	AfterAny []uint64 `json:"after_any,omitempty"` // tasks, with lower IDs, that must have ended first, however they end

	At   time.Time `json:"at,omitzero"`    // earliest start, by the machine's clock; zero for any time
	Held bool      `json:"held,omitempty"` // it waits until it is released
	Rank int64     `json:"rank,omitempty"` // tasks of a lower rank start first; 0 unless the task was moved
	Name Bytes     `json:"name,omitempty"` // by which later tasks can refer to it in After and AfterAny; "" for none
	Note Bytes     `json:"note,omitempty"` // the user's note about it; "" for none

	RerunOf uint64 `json:"rerun_of,omitempty"` // the ended task that this one runs again; 0 for none

	Unique   uint64  `json:"unique,omitempty"` // no two unfinished tasks have the same; 0 for none
	UniqueBy *string `json:"-"`                // what Unique is made of: a key, or "" for the task's work

	Priority int    `json:"priority,omitempty"` // tasks of a higher priority start first; 0 by default
	Weight   int    `json:"weight,omitempty"`   // number of places it takes, capped at all places; less than 1 counts as 1
	Needs    []Need `json:"needs,omitempty"`    // units of named limits that it takes; in order of name, each name once
}

// IsZero reports whether the terms have no effect.
func (t *Terms) IsZero() bool {
	terms := *t
	terms.Weight = max(terms.Weight, 1) - 1
	return reflect.ValueOf(terms).IsZero()
}

// Awaited returns the tasks that must have ended first. The caller must not change it.
func (t Terms) Awaited() []uint64 {
	if len(t.AfterAny) == 0 {
		return t.After
	}
	return slices.Concat(t.After, t.AfterAny)
}

// Terms returns the task's terms, which are zero if it has none.
func (t *Task) Terms() Terms {
	if t.Asked == nil {
		return Terms{}
	}
	return *t.Asked
}

// AttemptHistory holds the earlier attempts of a task. Result explains Before and Omitted.
type AttemptHistory struct {
	Before   []*Result
	Omitted  int
	Unlogged *Result // of a task that ended and runs again; nil unless a log lacks that end
}

// Mark is a position in a task's command or tag that is filled in when an attempt starts. The text there
// is {%} or {host}, for the number or the host of the slot, or the name of a Cap in braces, for the
// units that the attempt holds. With Temp it is the base name of a file that the task makes.
type Mark struct {
	Word int  // index in Argv, InTag, or InExec minus the index in Exec
	Off  int  // offset in the word, in bytes
	Temp bool `json:",omitempty"` // in the command to run, Making.Temp is inserted here
}

// Values of Mark.Word for words outside Argv: InTag is the task's tag, InExec the first word of
// Exec, InExec-1 the second.
const (
	InTag  = -1
	InExec = -2
)

// The texts at marks other than names.
const (
	NumberMark = "{%}"
	HostMark   = "{host}"
)

// Again returns a task that does the same as t, which has ended, under a new ID. last is the number of
// t's last attempt; the numbering continues from there.
func (t *Task) Again(id uint64, last int) *Task {
	again := *t
	again.ID, again.Attempts = id, last
	again.Done, again.History, again.Asked, again.Failures = nil, nil, nil, 0
	was := t.Terms()
	if terms := (Terms{Note: was.Note, Unique: was.Unique, Priority: was.Priority, Weight: was.Weight, Needs: was.Needs}); !terms.IsZero() {
		again.Asked = &terms
	}
	if t.Makes != nil {
		makes := *t.Makes
		makes.Known, makes.Done = KnownUnmade, nil
		again.Makes = &makes
	}
	return &again
}

// fill returns text, which is the given word, with the values of o at its marks. It ignores marks out of
// order or outside the word, which another machine may have sent.
func (t *Task) fill(text string, word int, o *Origin) string {
	var b []byte
	from := 0
	for _, m := range t.Marks {
		if m.Word != word || m.Off < from || m.Off > len(text) {
			continue
		}
		b = append(b, text[from:m.Off]...)
		if from = m.Off; m.Temp {
			b = append(b, o.Temp...)
			continue
		}
		rest := text[from:]
		mark := rest[:strings.IndexByte(rest, '}')+1]
		switch from += len(mark); mark {
		case NumberMark:
			b = strconv.AppendInt(b, int64(o.Slot), 10)
		case HostMark:
			b = append(b, o.Host...)
		default:
			b = append(b, UnitsOf(strings.Trim(mark, "{}"), o.Units)...)
		}
	}
	if b == nil && from == 0 {
		return text
	}
	return string(append(b, text[from:]...))
}

// ArgvOn returns the task's command, as it is shown, for an attempt that holds units in a slot of a
// host, which is empty for this machine. The caller must not change it.
func (t *Task) ArgvOn(slot int, host string, units []Units) []string {
	return t.wordsOn(t.Argv, 0, 1, Origin{Slot: slot, Host: host, Units: units}, "")
}

// ExecOn is like ArgvOn for the command to run, with the temporary names of the files that the task
// makes.
func (t *Task) ExecOn(slot int, host string, units []Units) []string {
	at, temp := Origin{Slot: slot, Host: host, Units: units}, ""
	if t.Makes != nil {
		temp = t.Makes.Temp
	} else if t.Origin != nil {
		temp = t.Origin.Temp
	}
	if t.Exec == nil {
		return t.wordsOn(t.Argv, 0, 1, at, temp)
	}
	return t.wordsOn(t.Exec, InExec, -1, at, temp)
}

// wordsOn fills in words. Mark.Word is first for the first word, and advances by step. Without a slot,
// it returns words as they are.
func (t *Task) wordsOn(words []string, first, step int, at Origin, temp string) []string {
	if len(t.Marks) == 0 || at.Slot == 0 {
		return words
	}
	o := t.origin(at)
	o.Temp = temp
	filled := make([]string, len(words))
	for i, w := range words {
		filled[i] = t.fill(w, first+step*i, &o)
	}
	return filled
}

// ArgvIn returns the command of a result of the task, even if it never ran.
func (t *Task) ArgvIn(r *Result) []string {
	if len(r.Argv) > 0 {
		return r.Argv
	}
	return t.Argv
}

// Varies reports whether the task's command differs between slots.
func (t *Task) Varies() bool {
	return slices.ContainsFunc(t.Marks, func(m Mark) bool { return m.Word != InTag && !m.Temp })
}

// TagOn returns the prefix of the output lines of an attempt that holds units in a slot of a host. host
// is "" for this machine.
func (t *Task) TagOn(slot int, host string, units []Units) string {
	if len(t.Marks) == 0 {
		return t.Tag
	}
	o := t.origin(Origin{Slot: slot, Host: host, Units: units})
	return t.fill(t.Tag, InTag, &o)
}

// Size estimates the number of bytes that the task occupies in memory.
func (t *Task) Size() int {
	const word, fixed = 16, 512
	n := fixed + len(t.Stdin) + len(t.Object) + len(t.Tag) + len(t.Key)
	add := func(words []string) {
		for _, w := range words {
			n += word + len(w)
		}
	}
	if t.Protocol == NoProtocol { // tasks of a persistent worker share them
		add(t.Argv)
		add(t.Exec)
	}
	if t.Block != nil {
		n += cap(t.Block.Text)
	}
	if t.Makes != nil { // Reads are its records, or few
		n += fixed/2 + 2*word*len(t.Marks)
		for _, target := range t.Makes.Targets {
			n += 2*word + len(target.Path)
		}
	}
	if a := t.Asked; a != nil {
		n += fixed/4 + 8*len(a.Awaited()) + len(a.Name) + len(a.Note) + 3*word/2*len(a.Needs)
	}
	for _, r := range t.Records {
		n += word
		add(r)
	}
	return n
}

// InputSize returns the number of bytes of the task's standard input.
func (t *Task) InputSize() int64 {
	if t.Block != nil {
		return t.Block.Size()
	}
	return int64(len(t.Stdin))
}

// Origin holds the facts about an attempt that its command and environment show. If a task carries out
// the attempt of a run on another machine, the facts are about that attempt.
type Origin struct {
	Task   uint64  // {#} and CREW_SEQ
	Number int     // CREW_ATTEMPT
	Slot   int     // {%} and CREW_WORKER; 0 for the slot where it runs
	Host   string  // {host} and CREW_HOST
	Units  []Units // as {gpu} and CREW_GPU; includes units that the attempt holds where it runs
	Once   bool    // it must not begin again, since it makes files under temporary names
	Bound  Bound   // on its output; zero for the run's
	Temp   string  // Making.Temp
	Life   *Life   // of the persistent worker that it needs; nil for the run's
}

// origin returns the Origin of an attempt, given the facts o about the attempt here; t.Origin takes
// precedence. The host, which another machine may have chosen, is reduced to characters without
// meaning in any shell.
func (t *Task) origin(o Origin) Origin {
	if t.Origin != nil {
		slot, here := o.Slot, o.Units
		o = *t.Origin
		o.Slot = cmp.Or(o.Slot, slot)
		if len(here) > 0 {
			o.Units = slices.Concat(o.Units, here)
		}
	}
	if o.Host == "" {
		o.Host = ThisHost()
	}
	o.Host = HostName(o.Host)
	return o
}

// ThisHost returns the name of this machine.
var ThisHost = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return cmp.Or(name, "localhost")
})

// MaxHost is the greatest length of a host name (RFC 1035, section 2.3.4).
const MaxHost = 253

// HostName converts s to a host name: Plain, with underscores for all other bytes, and at most MaxHost
// bytes long.
func HostName(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	s = s[:min(len(s), MaxHost)]
	for i := range len(s) {
		if strings.IndexByte(plain, s[i]) < 0 || s[i] == '-' && i == 0 {
			s = s[:i] + "_" + s[i+1:]
		}
	}
	return s
}

// Plain reports whether s has no special meaning in any shell, and is no option: it consists of
// letters, digits, dots, hyphens and underscores, does not begin with a hyphen, and is at most MaxHost
// bytes long. It may be empty.
func Plain(s string) bool { return s == HostName(s) }

// Slot is a worker: one of the numbered places where attempts run.
type Slot struct {
	ID     int      `json:"worker"`           // from 1; {%} and CREW_WORKER
	Host   string   `json:"host,omitempty"`   // empty for this machine
	Cap    int      `json:"places,omitempty"` // attempts at once; less than 1 counts as 1
	Labels []string `json:"-"`                // of the host; topics with these names run only there
	Offers *[]Need  `json:"-"`                // units that the host offers, in order of name; all slots of a host share the pointer; nil for none
}

// Attempt is one run of a task's command.
type Attempt struct {
	Task   *Task
	Number int // from 1; CREW_ATTEMPT
	Slot   Slot
	Units  []Units // units of named limits that it holds, in order of name
}

// Argv returns the attempt's command as it is shown. The caller must not change it.
func (a Attempt) Argv() []string { return a.Task.ArgvOn(a.Slot.ID, a.Slot.Host, a.Units) }

// Exec returns the attempt's command to run. The caller must not change it.
func (a Attempt) Exec() []string { return a.Task.ExecOn(a.Slot.ID, a.Slot.Host, a.Units) }

// End returns the result of an attempt that has taken no time until now.
func (a Attempt) End(o Outcome, err error, now time.Time) *Result {
	r := &Result{
		Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Host: a.Slot.Host, Units: a.Units, Argv: a.Argv(),
		Outcome: o, Err: err, Start: now, End: now,
	}
	if o == StartFailed {
		r.Code = 126
	}
	return r
}

// Origin returns the facts that the attempt's command and environment show.
func (a Attempt) Origin() Origin {
	return a.Task.origin(Origin{Task: a.Task.ID, Number: a.Number, Slot: a.Slot.ID, Host: a.Slot.Host, Units: a.Units})
}
