// Package task is the vocabulary of a run: what a task is, what an attempt at
// it is, how it can end, what happened and what may be asked of a run.
//
// Everything here is a value without behaviour beyond Stats.Apply and how it is
// written as text. Nothing is safe for concurrent change; a *Task is not changed
// by anyone once its Source has returned it, so any goroutine may read it.
package task

import (
	"io"
	"time"
)

// Task is what one command invocation does: one record, or several with -n.
type Task struct {
	// identity

	ID  uint64 // number in input order from 1 without a gap; {#} and CREW_SEQ
	Key string // what policy and limits go by; empty without --key

	// what a journal knows of it

	Identity [16]byte // the same in every run; zero where nothing is to be recorded of it
	Done     *Result  // how it ended in an earlier run: it does not run again; nil where it has to

	// what to run

	Argv  []string                  // the command; a {%} in it stands as text where Bind is set
	Bind  func(worker int) []string // the command on a worker; nil where it is the same on all
	Shell bool                      // Argv is a shell, its option and one script made by crew
	Env   []string                  // additions to the environment, "NAME=value"
	Dir   string                    // working directory; empty is the run's
	Stdin []byte                    // what the task reads; nil is /dev/null

	// how to run it

	Cost    int64         // how heavy it is, 1 by default
	Timeout time.Duration // of one attempt; 0 is the run's

	// how to show it

	Records [][]string              // the records it does, each its columns
	Object  string                  // the JSON object it came from, with --input json
	Tag     string                  // what its lines are prefixed with, expanded; a {%} in it stands as text where BindTag is set
	BindTag func(worker int) string // the tag on a worker; nil where it is the same on all
	Err     error                   // why it cannot be run at all; it is then finished as StartFailed
}

// Attempt is one run of a task's command.
type Attempt struct {
	Task   *Task
	Number int             // from 1; CREW_ATTEMPT
	Worker int             // the slot it runs in, from 1; {%} and CREW_WORKER
	Kill   <-chan struct{} // closed when it must die at once, whatever grace it was given
}

// Argv is the command of the attempt on its worker.
func (a Attempt) Argv() []string {
	if a.Task.Bind != nil {
		return a.Task.Bind(a.Worker)
	}
	return a.Task.Argv
}

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

// Result is how an attempt ended.
type Result struct {
	Task    *Task
	Attempt int
	Worker  int
	PID     int      // 0 where none was started
	Argv    []string // what was run

	Outcome Outcome
	Code    int   // exit status under OK (0) and Exit; 126 or 127 under StartFailed as a shell would say
	Signal  int   // what killed it, under Signal, Timeout and Cancelled; else 0
	Err     error // why, under StartFailed; under Cancelled, too, where a reason is known

	// BadCommand says that under StartFailed the command itself is at fault,
	// whatever its arguments: every task with this command would end so.
	BadCommand bool

	// Earlier says that an earlier run has shown this result: it counts, and is
	// not shown again.
	Earlier bool

	Leaked bool  // something that the task left behind still held its output when it was closed
	Fault  error // crew itself could not do its part (a full disk, say): the run has to stop

	Start, End   time.Time
	User, System time.Duration // processor time
	MaxRSS       int64         // bytes

	// Before are the attempts that failed before this one. Their outputs are
	// open only where the run keeps them (runner.Retry.Keep).
	Before []*Result

	// Stdout and Stderr are nil where nothing was captured or nothing was
	// written. Whoever handles the result last closes them.
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
