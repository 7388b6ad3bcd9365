package history

import (
	"cmp"
	"slices"
	"time"

	"crew/runner/decide/task"
	"crew/runner/keep/series"
)

// The limits of the lists of a Report.
const (
	MostAttempts = 110_000 // ended attempts in the timeline
	MostGroups   = 500     // keys, commands and hosts
	MostFailed   = 1000
	MostListed   = 100  // flaky and slowest tasks
	MostBlocked  = 1000 // stalls
)

// Report describes one or more runs. All lists are bounded and count what they leave out. The figures
// cover everything.
type Report struct {
	Title string // the command of the only run, or the names of the sources
	Made  time.Time
	Runs  []Run   // sorted by start
	Total Figures // like all lists, of the last result of each task

	Outcomes [task.Outcomes]int64 // number of tasks by outcome
	Bins     []Bin                // durations of the last attempts, shortest first, without gaps
	Curves   series.Curves
	Archive  []series.Curves // of a queue: of the last day and the last year; otherwise nil

	Keys, Commands, Hosts Groups
	Failed, Flaky         List // sorted by end
	Slowest               List // slowest first

	Attempts Attempts
	Left     int64     // tasks that did not end, as far as the source records them
	Missed   int64     // events that were lost, such as ends of tasks; no figure includes them
	Blocked  []Blocked // the longest stalls, sorted by start
}

// Run is one run, or the part of a resumed run between its start and its end.
type Run struct {
	Source     string // the file or directory, as the user named it
	Command    string // "" if unknown
	Start, End time.Time
	Ended      bool   // it ended by itself, as far as the source records that
	Complete   bool   // it ended after all of its input; false if the source does not record that
	Stopped    string // why it stopped before the end of its input; "" if it did not, or if the source does not record that
	Workers    int    // most workers at once; 0 if the source does not record starts

	Before, FailedBefore int64 `json:",omitzero"` // tasks that ended in earlier runs or before the source begins, as far as it records that

	Figures // of all tasks that ended in it, including tasks that a later run repeated
}

// UnknownReason is Run.Stopped of a run that stopped early without a reason.
const UnknownReason = "unknown reason"

// Figures are statistics of tasks. Times cover the last attempt of each task that ran.
type Figures struct {
	Tasks, Failed, Flaky, Retries int64
	Mean, Median, P95, Most       time.Duration // Median and P95 to within 4 %
	Time, User, System            time.Duration // sums
	MaxRSS                        int64         // bytes; 0 if unknown
}

// Bin counts durations from From, inclusive, to the From of the next one.
type Bin struct {
	From   time.Duration
	Tasks  int64
	Failed int64
}

// Groups are figures by name, sorted by their total time, longest first.
type Groups struct {
	List []Group
	Rest int64 // tasks of the names that are not in List
}

// Group has the figures of a key, a command or a host. Name is "" for tasks without one; a name of
// more than 400 bytes is abridged.
type Group struct {
	Name string
	Figures
	ByRun []Figures // of the tasks that ended in each of Report.Runs; nil if there is only one run
}

// List is a bounded list of tasks.
type List struct {
	List []Ended
	More int64 // number of tasks that did not fit
}

// Ended is a task that ended. The Facts describe its last attempt.
type Ended struct {
	task.Facts
	Run     int          // index in Report.Runs
	Output  []byte       // the end of the output of its last attempt, if that failed; nil if unknown
	Earlier []task.Facts // the last 10 failed attempts before that, without commands
}

// Attempts are the attempts of the timeline, sorted by start. If they do not all fit, List has the
// failures, the longest, and an even sample of the others.
type Attempts struct {
	List  []Attempt
	Lanes []Lane    // the rows of the timeline, sorted by host, then by worker
	More  int64     // number of attempts that did not fit
	Base  time.Time // start of the first attempt; without attempts, Report.Made
}

// Attempt is an attempt in the timeline. Times are in nanoseconds.
type Attempt struct {
	Task         uint64
	Start        int64  // since 1970
	Took         int64  // negative if it still runs or its end is unknown
	Waited       int64  // from when the task was read, or the previous attempt ended, to Start; -1 if unknown
	Key, Command string // cut to 240 bytes
	Run          int32  // index in Report.Runs
	Number       int32
	Lane         int32        // index in Attempts.Lanes; -1 if it never ran
	Code         int32        // exit status or signal
	Outcome      task.Outcome // 0 if it still runs or its end is unknown
	Final        bool         // the last attempt of its task

	Worker int32
	Host   string
	ran    bool
}

// Lane is a row of the timeline: a worker or, if the source does not record workers, one of several
// rows that keep overlapping attempts apart.
type Lane struct {
	Host   string // "" for the machine of the run
	Worker int    // 0 if unknown
}

// Blocked is a stall: a period in which nothing started although a worker was free.
type Blocked struct {
	Run      int // index in Report.Runs
	From, To time.Time
	Text     string // the reason, as in task.Blocking
}

// endStall ends the current stall, if there is one.
func (r *run) endStall(f *Fold, at time.Time) {
	if b := r.stall; b != nil && at.After(b.From) {
		b.To = at
		if f.Stuck != nil {
			f.Stuck(b)
		}
		f.blocked = insert(f.blocked, *b, MostBlocked, longer)
	}
	r.stall = nil
}

// longer sorts stalls by length, longest first.
func longer(a, b Blocked) int { return cmp.Compare(b.To.Sub(b.From), a.To.Sub(a.From)) }

// insert inserts x into a sorted list, after equal elements, and cuts the list to most elements.
func insert[T any](list []T, x T, most int, compare func(a, b T) int) []T {
	at, _ := slices.BinarySearchFunc(list, x, func(a, b T) int { return cmp.Or(compare(a, b), -1) })
	list = slices.Insert(list, at, x)
	return list[:min(len(list), most)]
}

// stalls returns the longest stalls, sorted by start.
func (f *Fold) stalls(place []int) []Blocked {
	list := slices.Clone(f.blocked)
	if n := len(f.runs); n > 0 && f.runs[n-1].stall != nil {
		b := *f.runs[n-1].stall
		if b.To = f.runs[n-1].End; b.To.After(b.From) {
			list = insert(list, b, MostBlocked, longer)
		}
	}
	for i := range list {
		list[i].Run = place[list[i].Run]
	}
	slices.SortStableFunc(list, func(a, b Blocked) int { return a.From.Compare(b.From) })
	return list
}
