package history

import (
	"cmp"
	"slices"
	"time"

	"crew/runner/decide/task"
)

// The most of each kind that a Report has.
const (
	MostAttempts = 110_000 // in the timeline, that ended
	MostGroups   = 500     // keys, commands and hosts
	MostFailed   = 1000
	MostListed   = 100  // flaky and slowest tasks
	MostBlocked  = 1000 // times in which nothing started
)

// Report is what is known of one or more runs. All lists are bounded; what they lack is
// counted, and the figures are of everything.
type Report struct {
	Title string // the command of the only run, or the names of the sources
	Made  time.Time
	Runs  []Run   // in the order of their beginnings
	Total Figures // as all lists, of tasks as they ended last

	Outcomes [task.Outcomes]int64 // tasks by how they ended
	Bins     []Bin                // durations of the last attempts, without gaps, the shortest first

	Keys, Commands, Hosts Groups
	Failed, Flaky         List // in the order of their ends
	Slowest               List // the slowest first

	Attempts Attempts
	Missed   int64     // events that nobody heard, such as ends of tasks; they are in no figure
	Blocked  []Blocked // why nothing started although a worker was free: the longest times, as they began
}

// Run is one run, or the part of a resumed run between its start and its end.
type Run struct {
	Source     string // the file or directory, as the user named it
	Command    string // "" if that is unknown
	Start, End time.Time
	Ended      bool // it came to an end of its own, as far as the source tells
	Workers    int  // the most at once; 0 if that is unknown
	Figures         // of all tasks that ended in it, also those that a later run did again
}

// Figures are about tasks, and their times about the last attempts of those that ran.
type Figures struct {
	Tasks, Failed, Flaky, Retries int64
	Mean, Median, P95, Most       time.Duration // the middle two to within 4 %
	Time, User, System            time.Duration // in all
	MaxRSS                        int64         // bytes; 0 if unknown
}

// Bin counts durations from From, inclusive, to the From of the next one.
type Bin struct {
	From   time.Duration
	Tasks  int64
	Failed int64
}

// Groups are figures by name, those first that took most time in all.
type Groups struct {
	List []Group
	Rest int64 // tasks of all names that the list lacks
}

// Group has the figures of a key, a command or a host. The name is "" for tasks without
// one, and abridged if it has more than 400 bytes.
type Group struct {
	Name string
	Figures
	ByRun []Figures // of all tasks that ended in it, in the order of Report.Runs; nil if there is only one
}

// List has some of several tasks.
type List struct {
	List []Ended
	More int64 // how many the list lacks
}

// Ended is a task that has ended, with its last attempt.
type Ended struct {
	task.Facts
	Run     int          // index in Report.Runs
	Output  []byte       // the end of what its last attempt wrote, if that failed; nil if that is unknown
	Earlier []task.Facts // the last 10 of its failed attempts before, without commands
}

// Attempts are the attempts of the timeline as they began. If there were more, these are the
// failures, the longest, and an even sample of the others.
type Attempts struct {
	List  []Attempt
	Lanes []Lane    // where they ran: by host, then by worker
	More  int64     // how many there were beside these
	Base  time.Time // the beginning of the first, or of its run
}

// Attempt is one of the timeline. Times are in nanoseconds.
type Attempt struct {
	Task         uint64
	Start        int64  // since 1970
	Took         int64  // negative if it runs, or its end is unknown
	Waited       int64  // between when the task was read, or the attempt before ended, and Start; -1 if unknown
	Key, Command string // their beginnings
	Run          int32  // index in Report.Runs
	Number       int32
	Lane         int32        // index in Attempts.Lanes; -1 if it never ran
	Code         int32        // exit status or signal
	Outcome      task.Outcome // 0 if it runs, or its end is unknown
	Final        bool         // the last attempt of its task

	Worker int32
	Host   string
	ran    bool
}

// Lane is a worker or, where the source does not tell workers, a row that keeps attempts
// apart which overlap.
type Lane struct {
	Host   string // "" for the machine of the run
	Worker int    // 0 where the source does not tell
}

// Blocked is a time in which nothing started although a worker was free.
type Blocked struct {
	Run      int // index in Report.Runs
	From, To time.Time
	Text     string // as in task.Blocking
}

// unblock ends the time in which nothing started.
func (r *run) unblock(f *Fold, at time.Time) {
	if b := r.stuck; b != nil && at.After(b.From) {
		b.To = at
		if f.Stuck != nil {
			f.Stuck(b)
		}
		f.blocked = insert(f.blocked, *b, MostBlocked, longer)
	}
	r.stuck = nil
}

// longer compares times in which nothing started.
func longer(a, b Blocked) int { return cmp.Compare(b.To.Sub(b.From), a.To.Sub(a.From)) }

// insert puts x into a sorted list, behind those that are equal, and drops what is more than most.
func insert[T any](list []T, x T, most int, compare func(a, b T) int) []T {
	at, _ := slices.BinarySearchFunc(list, x, func(a, b T) int { return cmp.Or(compare(a, b), -1) })
	list = slices.Insert(list, at, x)
	return list[:min(len(list), most)]
}

// blocks returns the longest times in which nothing started, the first of them first.
func (f *Fold) blocks(place []int) []Blocked {
	list := slices.Clone(f.blocked)
	if n := len(f.runs); n > 0 && f.runs[n-1].stuck != nil {
		b := *f.runs[n-1].stuck
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
