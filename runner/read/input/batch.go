package input

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"crew/runner/decide/task"
	"crew/runner/read/expand"
)

// Limits bound how many records go into one command. The zero Limits means one
// record of any size.
type Limits struct {
	Records int // number of records; 0 means no limit if Chars is set, and otherwise 1
	Chars   int // bytes of arguments including NULs, counted as xargs does; 0 means no limit
	ArgMax  int // bytes of arguments including NULs and pointers, counted as execve does; 0 means no limit

	// Workers is how many commands share the last records evenly. Up to as many full
	// commands are held back until more records have been read. If it is 0 or 1, each command is
	// filled as the records arrive.
	Workers int
}

func (l Limits) batches() bool { return l.Records > 1 || l.Chars > 0 }

// nextBatch returns the task of as many records as go into one command. A record with an Err
// becomes a task of its own.
func (t *Tasks) nextBatch(number func() uint64) (*task.Task, error) {
	n, err := t.countShare()
	if err != nil {
		return nil, err
	}
	id := number()
	tk := t.newTask(t.queue[:n], id)
	t.batchID, t.batchSize = id, n
	for _, r := range t.queue[:n] {
		t.queuedBytes -= r.size()
	}
	clear(t.queue[:n])
	t.queue = t.queue[n:]
	after := t.r.firstSource().nextPlace()
	if len(t.queue) > 0 {
		after = t.queue[0].place
	}
	t.noteEnd(id, after)
	return tk, nil
}

// countFitting returns how many records of the queue go into the next command: as many as the
// limits allow, up to most. It tries larger and larger numbers, and then searches between the
// largest that fits and the smallest that does not. It reads more records into the queue as needed.
// An error means that there is no record because the input has ended.
func (t *Tasks) countFitting(most int) (n int, err error) {
	if l := t.cfg.Limits.Records; l > 0 {
		most = min(most, l)
	}
	if n, err := t.fillQueue(1); n == 0 {
		return 1, err
	}
	fits, spare, over, lack := 1, 0, 0, 0 // over is the smallest number that does not fit, or 0
	for step := 0; fits < most && fits+1 != over; step++ {
		n := max(16, t.batchSize+t.batchSize/16, 2*fits)
		switch between := over - fits; {
		case over == 0 && most <= len(t.queue):
			n = most
		case over > 0 && step%2 == 0: // interpolate, as if all records had the same size
			n = fits + min(max(1, between*spare/(spare+lack)), between-1)
		case over > 0:
			n = fits + between/2
		}
		ready, _ := t.fillQueue(min(n, most))
		if ready < min(n, most) {
			most = ready
		}
		if left := t.batchSpareBytes(t.queue[:ready]); left >= 0 {
			fits, spare = ready, left
		} else {
			over, lack, most = ready, -left, ready-1
		}
	}
	return fits, nil
}

// fillQueue reads until the queue starts with want records that can be run, or the next one
// cannot be run, or the input ends. It returns their number, and an error if it is 0.
func (t *Tasks) fillQueue(want int) (n int, err error) {
	for ; n < want; n++ {
		if n == len(t.queue) {
			if err := t.readToQueue(); err != nil {
				if n > 0 {
					err = nil // the reader will return it again
				}
				return n, err
			}
		}
		if t.queue[n].Err != nil {
			break
		}
	}
	return n, nil
}

// readToQueue reads a record into the queue.
func (t *Tasks) readToQueue() error {
	err := t.read()
	if err == nil {
		if len(t.queue) == cap(t.queue) { // doubling is faster than growing by a quarter, as append does
			t.queue = slices.Grow(t.queue, max(16, len(t.queue)))
		}
		t.queue = append(t.queue, t.rec[0])
		t.queuedBytes += t.rec[0].size()
	}
	return err
}

// maxQueuedBytes is how many bytes of records the queue may hold for each worker: about as many as
// Linux allows in a command.
const maxQueuedBytes = 2 << 20

// countShare returns how many records go into the next command. Several workers share the last records, which
// are at most one full command for each worker. countShare reads until there are more or the input ends.
func (t *Tasks) countShare() (int, error) {
	workers := t.cfg.Limits.Workers
	full, err := t.countFitting(math.MaxInt)
	if err != nil || workers < 2 {
		return full, err
	}
	for t.sharers == 0 {
		switch {
		case len(t.queue) > full*workers, t.queuedBytes > maxQueuedBytes*workers:
			return full, nil
		case t.readToQueue() != nil: // the reader will return it again
			t.sharers = workers
		}
	}
	most := (len(t.queue) + t.sharers - 1) / t.sharers
	t.sharers = max(1, t.sharers-1)
	return t.countFitting(most)
}

// size returns the number of bytes in the columns.
func (r *Record) size() (n int) {
	for _, c := range r.Columns {
		n += len(c)
	}
	return n
}

// batchSpareBytes returns how many bytes the command of recs, in both its forms, may still grow; see
// spareBytes.
func (t *Tasks) batchSpareBytes(recs []Record) int {
	tk := &task.Task{Records: columnsOf(recs)}
	last := t.batchID + uint64(max(1, t.cfg.Limits.Workers)) // the largest number that a task of the queue can get
	v := expand.Values{Records: tk.Records, Seq: last}
	t.fillPlace(tk, v)
	t.cfg.Template.Fill(tk, v)
	left := min(t.spareBytes(tk, tk.ExecOn(math.MaxInt32, strings.Repeat("h", task.MaxHost), t.longestUnits())), maxArgument-longest(tk.Argv))
	if l := t.cfg.Limits.Chars; l > 0 && t.cfg.Stdin {
		left = min(left, l-charsOf(tk.Argv)-len(t.stdin(recs)))
	}
	return left
}

// maxArgument is the longest argument that Linux accepts, without its NUL
// (MAX_ARG_STRLEN in linux/binfmts.h). It applies on other systems, too, so that a run that
// one machine accepts is not refused by another.
const maxArgument = 128<<10 - 1

const pointerSize = 8

var errNUL = errors.New(`an argument holds a NUL byte, which no command can take: write the object without \u0000`)

// checkLimits removes the task's command if the task has an Err or exceeds a limit.
func (t *Tasks) checkLimits(tk *task.Task) {
	if tk.Err == nil {
		tk.Err = t.checkSize(tk)
	}
	if tk.Err != nil {
		tk.Argv, tk.Exec, tk.Shell = nil, nil, false
	}
}

// spareBytes returns how many bytes the command of tk, with its additions to the environment, may still
// grow within the limits of the system and Limits.Chars. argv is the form that is executed, tk.Argv the
// form that is displayed.
func (t *Tasks) spareBytes(tk *task.Task, argv []string) int {
	temps := 0
	for _, m := range tk.Marks {
		if m.Temp { // in either form: this counts too many rather than too few
			temps += task.TempLen
		}
	}
	left := maxArgument - max(longest(argv)+temps, longest(tk.Env))
	if l := t.cfg.Limits.Chars; l > 0 {
		left = min(left, l-charsOf(tk.Argv))
	}
	if l := t.cfg.Limits.ArgMax; l > 0 {
		left = min(left, l-temps-charsOf(argv)-pointerSize*len(argv)-charsOf(tk.Env)-pointerSize*len(tk.Env))
	}
	return left
}

// checkSize returns an error if the system would not accept the command.
func (t *Tasks) checkSize(tk *task.Task) error {
	argv := tk.ExecOn(0, "", nil)
	// Only an object can be written without the NUL byte: for other records, -0 is the solution.
	if tk.Object != "" && slices.ContainsFunc(argv, func(w string) bool { return strings.IndexByte(w, 0) >= 0 }) {
		return errNUL
	}
	left := t.spareBytes(tk, argv)
	if left >= 0 {
		return nil
	}
	what, n := "command", charsOf(tk.Argv)
	switch word, variable := longest(argv), longest(tk.Env); {
	case word > maxArgument:
		what, n, left = "argument", word, maxArgument-word
	case variable > maxArgument:
		what, n, left = "variable", variable, maxArgument-variable
	}
	return fmt.Errorf("argument list too long: %s is %s, the limit is %d", what, task.Count(int64(n), "byte"), max(0, n+left))
}

// charsOf returns the size of a command as xargs -s counts it.
func charsOf(argv []string) (n int) {
	for _, w := range argv {
		n += len(w) + 1
	}
	return n
}

// longest returns the length of the longest word.
func longest(argv []string) (n int) {
	for _, w := range argv {
		n = max(n, len(w))
	}
	return n
}
