package input

import (
	"errors"
	"math"
	"slices"
	"strings"

	"crew/runner/decide/task"
	"crew/runner/read/expand"
)

// batch returns the task of as many records as go into one command. A record that
// cannot be run is a task of its own.
func (t *Tasks) batch(number func() uint64) (*task.Task, error) {
	var n int
	var err error
	if t.cfg.Limits.Workers > 1 {
		n, err = t.spread()
	} else {
		n, err = t.gather(math.MaxInt)
	}
	if err != nil {
		return nil, err
	}
	id := number()
	tk := t.of(t.queue[:n], id)
	for n > 1 && errors.Is(tk.Err, errTooLong) { // a late record has changed how all are written
		n /= 2
		tk = t.of(t.queue[:n], id)
	}
	t.latest, t.usual = id, n
	for _, r := range t.queue[:n] {
		t.held -= r.size()
	}
	clear(t.queue[:n])
	t.queue = t.queue[n:]
	after := t.r.first().after()
	if len(t.queue) > 0 {
		after = t.queue[0].place
	}
	t.end(id, after)
	return tk, nil
}

// gather returns how many records of the queue go into the next command: as many as the limits
// allow, and at most as many as most. It makes commands of more and more, and looks between the
// last that is within the limits and the first that is not. It reads what the queue lacks. An
// error means that there is no record, because the input has ended.
func (t *Tasks) gather(most int) (n int, err error) {
	if l := t.cfg.Limits.Records; l > 0 {
		most = min(most, l)
	}
	if n, err := t.ready(1); n == 0 {
		return 1, err
	}
	fits, spare, over, lack := 1, 0, 0, 0 // over is the first number that is too many, or 0
	for step := 0; fits < most && fits+1 != over; step++ {
		n := max(16, t.usual+t.usual/16, 2*fits)
		switch between := over - fits; {
		case over == 0 && most <= len(t.queue):
			n = most
		case over > 0 && step%2 == 0: // as if all records were of one size
			n = fits + min(max(1, between*spare/(spare+lack)), between-1)
		case over > 0:
			n = fits + between/2
		}
		ready, _ := t.ready(min(n, most))
		if ready < min(n, most) {
			most = ready
		}
		if left := t.room(t.queue[:ready]); left >= 0 {
			fits, spare = ready, left
		} else {
			over, lack, most = ready, -left, ready-1
		}
	}
	return fits, nil
}

// ready reads until the queue has so many records, or there are no more that can be run, and
// returns how many there are. An error means that there is none.
func (t *Tasks) ready(want int) (n int, err error) {
	for ; n < want; n++ {
		if n == len(t.queue) {
			if err := t.more(); err != nil {
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

// more reads a record into the queue.
func (t *Tasks) more() error {
	err := t.read()
	if err == nil {
		if len(t.queue) == cap(t.queue) { // to grow by a quarter, as append does, takes longer
			t.queue = slices.Grow(t.queue, max(16, len(t.queue)))
		}
		t.queue = append(t.queue, t.rec[0])
		t.held += t.rec[0].size()
	}
	return err
}

// mostHeld is how many bytes of records may be held back for each worker: about as many as
// Linux allows in a command.
const mostHeld = 2 << 20

// spread returns how many records go into the next command if workers share the last ones,
// as many as go into a command for each. It reads until there are more, or the input ends.
func (t *Tasks) spread() (int, error) {
	workers := t.cfg.Limits.Workers
	full, err := t.gather(math.MaxInt)
	if err != nil {
		return 0, err
	}
	for t.shares == 0 {
		switch {
		case len(t.queue) > full*workers, t.held > mostHeld*workers:
			return full, nil
		case t.more() != nil: // the reader will return it again
			t.shares = workers
		}
	}
	most := (len(t.queue) + t.shares - 1) / t.shares
	t.shares = max(1, t.shares-1)
	return t.gather(most)
}

// size returns how many bytes the columns have.
func (r *Record) size() (n int) {
	for _, c := range r.Columns {
		n += len(c)
	}
	return n
}

// room returns how much the command of recs, and what people see of it, may grow; see left.
func (t *Tasks) room(recs []Record) int {
	tk := &task.Task{Records: columnsOf(recs)}
	last := t.latest + uint64(max(1, t.cfg.Limits.Workers)) // of the queue
	t.cfg.Template.Fill(tk, expand.Values{Records: tk.Records, Seq: last})
	left := min(t.left(tk, tk.ExecOn(math.MaxInt32, strings.Repeat("h", task.MaxHost), t.longestUnits())), maxArgument-longest(tk.Argv))
	if l := t.cfg.Limits.Chars; l > 0 && t.cfg.Stdin {
		left = min(left, l-charsOf(tk.Argv)-len(t.stdin(recs)))
	}
	return left
}

// charsOf returns how long a command is as xargs -s counts it.
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
