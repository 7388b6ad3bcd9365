package input

import (
	"errors"
	"math"
	"slices"
	"sort"
	"strings"

	"crew/runner/expand"
	"crew/runner/task"
)

// batch returns the task of as many records as go into one command. A record that
// cannot be run is a task of its own.
func (t *Tasks) batch(number func() uint64) (*task.Task, error) {
	var n int
	var err error
	if t.cfg.Limits.Workers > 1 {
		n, err = t.spread()
	} else {
		n, err = t.gather(t.head, math.MaxInt)
	}
	if err != nil {
		return nil, err
	}
	id := number()
	tk := t.of(t.queue[t.head:t.head+n], id)
	for n > 1 && errors.Is(tk.Err, errTooLong) { // a late record has changed how all are written
		n /= 2
		tk = t.of(t.queue[t.head:t.head+n], id)
	}
	t.latest, t.usual = id, n
	t.drop(n)
	after := t.r.axes[0].parts[0].after()
	if t.head < len(t.queue) {
		after = t.queue[t.head].place
	}
	t.end(id, after)
	return tk, nil
}

// drop takes n records from the queue.
func (t *Tasks) drop(n int) {
	if len(t.cuts) > 0 {
		if t.cuts[0] -= n; t.cuts[0] == 0 {
			t.cuts = t.cuts[1:]
		}
	}
	clear(t.queue[t.head : t.head+n])
	t.head += n
	if 2*t.head < len(t.queue) { // so many are held back that moving them would take long
		return
	}
	rest := copy(t.queue, t.queue[t.head:])
	clear(t.queue[rest:])
	t.queue, t.head = t.queue[:rest], 0
}

// gather returns how many records of the queue, from an index on, go into one command: as
// many as the limits allow, and at most as many as most. It makes commands of more and more, and
// looks between the last that is within the limits and the first that is not. It reads what the
// queue lacks. An error means that there is no record, because the input has ended.
func (t *Tasks) gather(from, most int) (n int, err error) {
	if l := t.cfg.Limits.Records; l > 0 {
		most = min(most, l)
	}
	if n, err := t.ready(from, 1); n == 0 {
		return 1, err
	}
	fits, spare, over, lack := 1, 0, 0, 0 // over is the first number that is too many, or 0
	for step := 0; fits < most && fits+1 != over; step++ {
		n := max(16, t.usual+t.usual/16, 2*fits)
		switch between := over - fits; {
		case over == 0 && most <= len(t.queue)-from:
			n = most
		case over > 0 && step%2 == 0: // as if all records were of one size
			n = fits + min(max(1, between*spare/(spare+lack)), between-1)
		case over > 0:
			n = fits + between/2
		}
		ready, _ := t.ready(from, min(n, most))
		if ready < min(n, most) {
			most = ready
		}
		if left := t.room(t.queue[from : from+ready]); left >= 0 {
			fits, spare = ready, left
		} else {
			over, lack, most = ready, -left, ready-1
		}
	}
	return fits, nil
}

// ready reads until the queue has so many records from an index on, or there are no more that can
// be run, and returns how many there are. An error means that there is none.
func (t *Tasks) ready(from, want int) (n int, err error) {
	for ; n < want; n++ {
		if from+n == len(t.queue) {
			if err := t.read(); err != nil {
				if n > 0 {
					err = nil // the reader will return it again
				}
				return n, err
			}
			if len(t.queue) == cap(t.queue) { // to grow by a quarter, as append does, takes longer
				t.queue = slices.Grow(t.queue, max(16, len(t.queue)))
			}
			t.queue = append(t.queue, t.rec[0])
		}
		if t.queue[from+n].Err != nil {
			break
		}
	}
	return n, nil
}

// spread returns how many records go into the next command if workers share the last
// ones. It reads until more could be held back than there may be, or the input ends.
func (t *Tasks) spread() (int, error) {
	for !t.ended {
		from := t.head
		for _, n := range t.cuts {
			from += n
		}
		full, most := len(t.cuts) >= t.cfg.Limits.Workers, math.MaxInt
		if full {
			most = 1
		}
		n, err := t.gather(from, most)
		switch {
		case err != nil:
			t.ended = true
			t.divide()
		case full:
			return t.cuts[0], nil
		default:
			t.cuts = append(t.cuts, n)
		}
	}
	if len(t.cuts) == 0 {
		return t.gather(t.head, 1) // the error that ended the input
	}
	return t.cuts[0], nil
}

// divide cuts the queue anew, so that workers share it. If they cannot do so evenly, since
// some records are too long for that, it finds the least number of records that each
// command may have without there being more commands than workers.
func (t *Tasks) divide() {
	workers, greatest := t.cfg.Limits.Workers, slices.Max(append(t.cuts, 0))
	if t.cuts = t.cut(0); len(t.cuts) > workers {
		least := divideUp(len(t.queue)-t.head, workers)
		t.cuts = t.cut(least + sort.Search(greatest-least, func(more int) bool {
			return len(t.cut(least+more)) <= workers
		}))
	}
}

// cut returns how many records go into each command if these take at most so many of the
// queue, or if that is 0, an even share of what is left.
func (t *Tasks) cut(most int) (cuts []int) {
	for from := t.head; from < len(t.queue); {
		n := most
		if n == 0 {
			n = divideUp(len(t.queue)-from, max(1, t.cfg.Limits.Workers-len(cuts)))
		}
		n, _ = t.gather(from, n) // there is one
		cuts = append(cuts, n)
		from += n
	}
	return cuts
}

// divideUp returns a/b, rounded up.
func divideUp(a, b int) int { return (a + b - 1) / b }

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
