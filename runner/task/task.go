// Package task is the vocabulary of a run: what a task is, what an attempt at
// it is, how it can end, what happened, what may be asked of a run and what it
// answers.
//
// Everything here is plain data with no behaviour beyond Stats.Apply and its
// form as text. Nothing is safe for concurrent change. A Task does not change
// once the run has admitted it, so any goroutine may read it.
package task

import (
	"errors"
	"io"
	"strconv"
	"time"
)

// Task is what one command invocation does: one record, or several with -n. It
// can be written to another process or host, except for Done and Err.
type Task struct {
	// identity

	ID  uint64 // number in input order from 1 without a gap; {#} and CREW_SEQ
	Key string // what policy and limits go by; empty without --key

	// what a journal knows of it

	Identity [16]byte // the same in every run; zero where nothing is to be recorded of it
	Done     *Result  // how it ended in an earlier run; nil where it has to run
	Attempts int      // attempts that have ended in earlier runs; numbering goes on from there
	Failures int      // of these, the ones that used up a retry

	// what to run

	Argv  []string // the command
	Shell bool     // Argv is a shell, its option and one script made by crew
	Env   []string // additions to the environment, "NAME=value"
	Dir   string   // working directory; empty is the run's
	Stdin []byte   // what the task reads; nil is /dev/null

	// how to run it

	Cost    int64         // how heavy it is; less than 1 counts as 1
	Timeout time.Duration // of one attempt; 0 is the run's, negative is none

	// how to show it

	Records [][]string // the records it does, each its columns
	Object  string     // the JSON object it came from, with --input json
	Tag     string     // the prefix of its lines
	Marks   []Mark     // where Tag and then Argv hold a {%}, in order
	Err     error      // why it cannot be run at all; it then finishes as StartFailed
}

// Mark is a {%} in a task's command or tag, which stands for the number of the
// slot that the task runs in. That number is known only when an attempt starts.
type Mark struct {
	Word int // index in Argv, or InTag
	Off  int // in bytes
}

// InTag is the Word of a mark in a task's tag.
const InTag = -1

const markText = "{%}"

// number returns text, which is word of t, with the slot's number at its marks.
func (t *Task) number(text string, word, slot int) string {
	var b []byte
	from := 0
	for _, m := range t.Marks {
		if m.Word == word {
			b = strconv.AppendInt(append(b, text[from:m.Off]...), int64(slot), 10)
			from = m.Off + len(markText)
		}
	}
	if from == 0 {
		return text
	}
	return string(append(b, text[from:]...))
}

// ArgvOn returns the task's command in a slot. The caller must not change it.
func (t *Task) ArgvOn(slot int) []string {
	if len(t.Marks) == 0 || slot == 0 {
		return t.Argv
	}
	argv := make([]string, len(t.Argv))
	for i, w := range t.Argv {
		argv[i] = t.number(w, i, slot)
	}
	return argv
}

// Varies says whether the task's command differs from slot to slot.
func (t *Task) Varies() bool {
	return len(t.Marks) > 0 && t.Marks[len(t.Marks)-1].Word != InTag
}

// TagOn returns the prefix of the task's lines in a slot.
func (t *Task) TagOn(slot int) string { return t.number(t.Tag, InTag, slot) }

// Size returns about how many bytes the task occupies in memory.
func (t *Task) Size() int {
	const word, fixed = 16, 512
	n := fixed + len(t.Stdin) + len(t.Object) + len(t.Tag) + len(t.Key)
	for _, w := range t.Argv {
		n += word + len(w)
	}
	for _, r := range t.Records {
		n += word * (len(r) + 1)
		for _, c := range r {
			n += len(c)
		}
	}
	return n
}

// Slot is a place where attempts run.
type Slot struct {
	ID    int    // from 1; {%} and CREW_WORKER
	Host  string // empty is this machine
	Cap   int    // attempts at once; less than 1 counts as 1
	Token byte   // the make token that it stands for, given back when it leaves; 0 for a slot of crew's own
}

// Attempt is one run of a task's command.
type Attempt struct {
	Task   *Task
	Number int // from 1; CREW_ATTEMPT
	Slot   Slot
}

// Argv returns the attempt's command. The caller must not change it.
func (a Attempt) Argv() []string { return a.Task.ArgvOn(a.Slot.ID) }

// ErrTimeout is the cause with which an attempt's context ends when the
// attempt's time is over.
var ErrTimeout = errors.New("timed out")

// Output is a finished stream of one attempt's output. It is read by one
// goroutine at a time, from the start each time, as often as it is wanted.
type Output interface {
	// Len is the number of bytes.
	Len() int64
	// WriteTo writes all of it to w.
	io.WriterTo
	// Tail is at most the last n bytes.
	Tail(n int) ([]byte, error)
	// Close gives back what the output occupies; it may be called again.
	Close() error
}

// Length is the number of bytes of o, which may be nil.
func Length(o Output) int64 {
	if o == nil {
		return 0
	}
	return o.Len()
}

// Result is how an attempt ended. It belongs to one goroutine at a time: to the
// executor until Run returns, then to the run, and from its Finished or Retried
// event on to the sinks.
type Result struct {
	Task    *Task
	Attempt int
	Worker  int      // ID of the slot; 0 where it never ran
	PID     int      // 0 where no process was started
	Argv    []string // what was run

	Outcome Outcome
	Code    int   // exit status under OK (0) and Exit; 126 or 127 under StartFailed as a shell would say
	Signal  int   // what killed it, under Signal, Timeout and Cancelled; else 0
	Err     error // why, under StartFailed; under Cancelled, too, where a reason is known

	// BadCommand says that under StartFailed the command itself is at fault,
	// whatever its arguments: every task with this command would end so.
	BadCommand bool

	// Earlier says that an earlier run has shown this result: it counts, and is
	// not shown again. Logged says the same of the joblog and the results tree.
	Earlier, Logged bool

	Leaked bool  // something that the task left behind still held its output when it was closed
	Fault  error // crew itself could not do its part (a full disk, say): the run has to stop

	Start, End   time.Time
	User, System time.Duration // processor time
	RunDelay     time.Duration // about how long it was ready to run and had no processor; 0 where that was not asked for
	MaxRSS       int64         // bytes; 0 where it is not known

	// Before are the attempts of this run that failed before this one. Their
	// outputs are open only where the plan keeps them (Plan.KeepsAttempts).
	Before []*Result

	// Stdout and Stderr are nil where nothing was captured or nothing was
	// written. The last owner closes them.
	Stdout, Stderr Output
	// Tail is the end of stderr where stderr itself is not kept.
	Tail []byte
}

// Duration is how long the attempt ran; 0 where none began.
func (r *Result) Duration() time.Duration {
	if r.Start.IsZero() {
		return 0
	}
	return r.End.Sub(r.Start)
}

// Close closes all outputs.
func (r *Result) Close() {
	if r.Stdout != nil {
		r.Stdout.Close()
	}
	if r.Stderr != nil {
		r.Stderr.Close()
	}
	for _, b := range r.Before {
		b.Close()
	}
}
