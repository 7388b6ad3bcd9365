package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"crew/runner/task"
	"crew/runner/wiring"
)

// seats says which persistent worker takes an attempt. Each is a numbered slot of the
// executor, which keeps a process there. Slots of this worker's own run would not do:
// a record must go to the process that had those of its slot in the submitter's run.
type seats struct {
	window  int                              // records that a process has at once
	dismiss func(number int) <-chan struct{} // see coproc.Workers

	mu      sync.Mutex
	most    int     // that there should be
	list    []*seat // by number, less 1
	turns   int     // counts attempts
	waiting []*claim
}

// seat is the place of a persistent worker. The zero seat but for its number is free.
type seat struct {
	number int
	holder
	own   bool // its process is that of this worker's own command, which serves all runs
	busy  int  // records that it has; window if a task has it that is none
	over  bool // its run is over
	turn  int  // when it was last taken
	heard time.Duration
}

// holder is a slot of a run. The zero holder is that of a task that is no record.
type holder struct {
	run   string
	epoch uint64
	slot  int
}

// claim is an attempt that waits for a seat.
type claim struct {
	holder
	own   bool
	given chan *seat
}

// take returns a seat for an attempt of a holder. It waits while that of the holder has
// its window full, or while others have all seats; then those that come later wait, too.
// It returns nil if ctx is done before. Its caller calls leave when the attempt has ended.
func (s *seats) take(ctx context.Context, h holder, own bool) *seat {
	c := &claim{h, own, make(chan *seat, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, c)
	s.give()
	s.mu.Unlock()
	select {
	case it := <-c.given:
		return it
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, c); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.give()
		return nil
	}
	return <-c.given
}

// give gives seats to the claims, in order. Its caller holds mu.
func (s *seats) give() {
	none := false
	s.waiting = slices.DeleteFunc(s.waiting, func(c *claim) bool {
		if none {
			return false
		}
		it := s.find(c)
		if none = it == nil; none || it.busy+s.weight(c.holder) > s.window {
			return false
		}
		s.turns++
		it.turn = s.turns
		it.busy += s.weight(c.holder)
		if it.holder != c.holder || it.own != c.own {
			it.holder, it.own, it.heard = c.holder, c.own, sinceBoot()
		}
		c.given <- it
		return true
	})
}

// weight is how much of a seat's window an attempt takes.
func (s *seats) weight(h holder) int {
	if h.run == "" {
		return s.window
	}
	return 1
}

// find returns the seat that a claim has to get, at once or later, or nil if that is not
// certain yet. Its caller holds mu.
func (s *seats) find(c *claim) *seat {
	var free, oldest *seat
	for _, it := range s.list {
		switch {
		case c.run != "" && it.holder == c.holder && it.own == c.own && !it.over:
			return it
		case it.busy > 0 || it.number > s.most:
		case it.run == "":
			free = it
		case oldest == nil || it.turn < oldest.turn:
			oldest = it
		}
	}
	switch {
	case free != nil:
		return free
	case len(s.list) < s.most:
		s.list = append(s.list, &seat{number: len(s.list) + 1})
		return s.list[len(s.list)-1]
	case oldest != nil && !(c.own && oldest.own):
		s.free(oldest)
	}
	return oldest
}

// leave ends the use of a seat by an attempt of a holder.
func (s *seats) leave(it *seat, h holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it.busy -= s.weight(h)
	if it.busy == 0 && (it.over || it.number > s.most) {
		s.free(it)
	}
	s.give()
}

// resize sets how many seats there should be.
func (s *seats) resize(most int) {
	s.mu.Lock()
	s.most = most
	s.give()
	s.mu.Unlock()
	s.end(func(it *seat) bool { return it.number > most })
}

// free ends the process of a seat, if it has one. Its caller holds mu.
func (s *seats) free(it *seat) (ended <-chan struct{}) {
	if it.run != "" {
		ended = s.dismiss(it.number)
	}
	*it = seat{number: it.number}
	return ended
}

// end ends the processes for which over holds. ended are closed when those that were
// not busy have exited.
func (s *seats) end(over func(c *seat) bool) (ended []<-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.list {
		switch {
		case c.run == "" || !over(c):
		case c.busy > 0:
			c.over = true
		default:
			ended = append(ended, s.free(c))
		}
	}
	return ended
}

// hear notes that a run lives.
func (s *seats) hear(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.list {
		if c.run == run {
			c.heard = sinceBoot()
		}
	}
}

// Life returns how long the persistent worker lives that a run sends. See wiring.Worker.
func (w *crewWorker) Life(t *task.Task) *wiring.Life {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.tasks[t.ID]
	if h.ownCommand() {
		return nil
	}
	return &h.Attempt.Life
}

// holder returns whose process takes the attempt, if that is a record.
func (h *job) holder() holder {
	if h.Protocol == task.NoProtocol {
		return holder{}
	}
	return holder{h.Run, h.Epoch, h.Slot}
}

// ownCommand reports whether the attempt is for the command of the worker.
func (h *job) ownCommand() bool { return len(h.Argv) == 0 && !h.Shell }
