package task

import (
	"errors"
	"io"
	"slices"
	"syscall"
	"time"
)

// Silent is the Err of the result of an attempt that has written nothing for that time.
type Silent time.Duration

// Error implements error.
func (s Silent) Error() string { return "silent for " + time.Duration(s).String() }

// ErrCancelled is the cause of an attempt's context if a command cancels its task. The cause is another
// error if the command says who asks for it.
var ErrCancelled = errors.New("cancelled")

// ErrMemory is the cause of an attempt's context if too little memory is left.
var ErrMemory = errors.New("too little memory was left")

// ErrOutOfMemory is the Err of the result of a process that the kernel has probably killed for lack of
// memory.
var ErrOutOfMemory = errors.New("probably out of memory")

// OutcomeOf returns the outcome of an attempt that was ended for the given cause.
func OutcomeOf(cause error) Outcome {
	if cause == ErrMemory {
		return Memory
	}
	return Cancelled
}

// Output is the complete stdout or stderr of an attempt. It can be read any number of times, but only
// by one goroutine at a time.
type Output interface {
	// Len returns the number of bytes.
	Len() int64
	// WriteTo writes all bytes to w.
	io.WriterTo
	io.ReaderAt
	// Close frees the memory and disk space of the output. It may be called again.
	Close() error
}

// Length returns the number of bytes of o, which may be nil.
func Length(o Output) int64 {
	if o == nil {
		return 0
	}
	return o.Len()
}

// Tail returns the last n bytes of o, or all if there are fewer.
func Tail(o Output, n int) ([]byte, error) {
	tail := make([]byte, min(int64(n), o.Len()))
	if len(tail) == 0 {
		return nil, nil
	}
	n, err := o.ReadAt(tail, o.Len()-int64(len(tail)))
	return tail[:n], err
}

// Result is how an attempt ended. It has one owner at a time: the executor until Run returns, then the
// run, and the sinks once they get its Finished or Retried event.
type Result struct {
	Task    *Task
	Attempt int
	Worker  int      // ID of the slot; 0 if the attempt never ran
	Host    string   // the machine, unless it ran on this one
	Units   []Units  // units of named limits that the attempt held
	PID     int      // 0 if no process was started
	Argv    []string // the command as it was run

	Code    int     // exit status if OK or Exit; 126 or 127, as in a shell, if StartFailed
	Signal  int     // the signal that ended it if Signal, Timeout or Cancelled; 0 otherwise
	Err     error   // the reason if StartFailed, and if another outcome needs one; may be ErrOutOfMemory if Signal or Exit
	Outcome Outcome // placed here, it takes no extra memory

	// BadCommand means, with StartFailed, that the command cannot be executed with any arguments.
	BadCommand bool

	// Earlier means that an earlier run has shown this result: it counts but is not shown again.
	// Logged means the same for the joblog and the results tree. In Before, Earlier means that the
	// attempt's output is not kept.
	Earlier, Logged bool

	// Unbegun means, with Lost, that the attempt had certainly not begun, or that its worker ended it
	// in an orderly shutdown. It then does not count as lost.
	Unbegun bool
	// Final means that the task was not cut off by the end of the run, so the task of a queue must not
	// run again: with Cancelled, a command cancelled it; with NotRun, it comes after a task that did
	// not succeed.
	Final bool
	// Interrupted means, with Signal, that the user interrupted the task at the terminal, and with it
	// the run.
	Interrupted bool

	Cut     int64  // the output beyond this many bytes was dropped; 0 if none was
	Leaked  bool   // a process that the task left behind still had its output open
	Left    string // names of processes that the task left behind and crew killed, separated by commas
	Daemons string // names of processes that have become daemons and keep running, as far as crew noticed them
	Fault   error  // an error of crew itself, such as a full disk; the run must stop

	Start, End   time.Time
	User, System time.Duration // CPU time
	MaxRSS       int64         // bytes; 0 if unknown

	// Before holds the earlier attempts that failed or, after they had begun, were lost or ended for
	// memory, since the task was last done. Their outputs are open only if Plan.KeepsAttempts.
	Before  []*Result
	Omitted int // earlier attempts left out of Before, between the first and the last few

	// Stdout and Stderr are nil if nothing was captured or written. The last owner of the result
	// closes them.
	Stdout, Stderr Output
	// Tail is the end of stderr, or of stdout if stderr is blank, for outputs that are not kept. In
	// Before it is the last few lines that sink.Digest has seen.
	Tail []byte
}

// Duration returns how long the attempt ran, or 0 if it never began.
func (r *Result) Duration() time.Duration {
	if r.Start.IsZero() {
		return 0
	}
	return r.End.Sub(r.Start)
}

// Killed reports whether the process was killed with SIGKILL or, if it is a shell, one of its commands
// was: the shell then exits with status 137.
func (r *Result) Killed() bool {
	return r.Outcome == Signal && r.Signal == int(syscall.SIGKILL) || r.Outcome == Exit && r.Code == 128+int(syscall.SIGKILL)
}

// FromEarlierRun reports whether r is the result of an earlier run.
func (r *Result) FromEarlierRun() bool {
	t := r.Task
	return t != nil && (r == t.Done || t.Makes != nil && r == t.Makes.Done)
}

// Failures returns the attempts that failed, in order, without replaced ones. If the task failed, the
// last one is r itself.
func (r *Result) Failures() (list []*Result) {
	for _, b := range r.Before {
		if b.Outcome.Failed() && !b.Outcome.Replaced() {
			list = append(list, b)
		}
	}
	if r.Outcome.Failed() {
		list = append(list, r)
	}
	return list
}

// EarlierAttempts returns the number of attempts before r.
func (r *Result) EarlierAttempts() int { return len(r.Before) + r.Omitted }

// Flaky reports whether the task failed and then succeeded.
func (r *Result) Flaky() bool { return r.Outcome == OK && len(r.Failures()) > 0 }

// Close closes all outputs.
func (r *Result) Close() {
	for _, o := range [...]Output{r.Stdout, r.Stderr} {
		if o != nil {
			o.Close()
		}
	}
	for _, b := range r.Before {
		b.Close()
	}
}

// maxKept is the most attempts that are kept of a task before the last.
const maxKept = 10

// AppendAttempt appends an attempt to the earlier ones of a task. Beyond a few attempts, it removes
// one between the first and the latest ones, and returns it as out.
func AppendAttempt[T any](list []T, a T) (kept []T, out T) {
	list = append(list, a)
	if len(list) <= maxKept {
		return list, out
	}
	out = list[1]
	return slices.Delete(list, 1, 2), out
}
