package engine

import (
	"context"
	"slices"
	"sync"
)

// Seats says which persistent worker takes an attempt, where one machine runs attempts of
// several runs. Each is a numbered slot of coproc.Workers, which keeps a process there. The slots
// in which the attempts come would not do: a record must go to the process that had those
// of its slot in its own run. Seats is safe for concurrent use.
type Seats struct {
	Window  int                              // records that a process has at once
	Dismiss func(number int) <-chan struct{} // see coproc.Workers

	mu      sync.Mutex
	most    int     // that there should be
	list    []*Seat // by number, less 1
	turns   int     // counts attempts
	waiting []*claim
}

// Seat is the place of a persistent worker. The zero Seat but for its number is free.
type Seat struct {
	Number int
	Holder
	Busy int // records that it has; Window if a task has it that is none

	own  bool // its process is that of the machine's own command, which serves all runs
	over bool // its run is over
	turn int  // when it was last taken
}

// Holder is a slot of a run. The zero Holder is that of a task that is no record.
type Holder struct {
	Run   string
	Epoch uint64
	Slot  int
}

// claim is an attempt that waits for a seat.
type claim struct {
	Holder
	own   bool
	given chan *Seat
}

// Take returns a seat for an attempt of a holder, for the machine's own command or one that
// the attempt brings. It waits while that of the holder has its window full, or while
// others have all seats; then those that come later wait, too. It returns nil if ctx is
// done before. Its caller calls Leave when the attempt has ended.
func (s *Seats) Take(ctx context.Context, h Holder, own bool) *Seat {
	c := &claim{h, own, make(chan *Seat, 1)}
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
func (s *Seats) give() {
	none := false
	s.waiting = slices.DeleteFunc(s.waiting, func(c *claim) bool {
		if none {
			return false
		}
		it := s.find(c)
		if none = it == nil; none || it.Busy+s.weight(c.Holder) > s.Window {
			return false
		}
		s.turns++
		it.turn = s.turns
		it.Busy += s.weight(c.Holder)
		it.Holder, it.own = c.Holder, c.own
		c.given <- it
		return true
	})
}

// weight is how much of a seat's window an attempt takes.
func (s *Seats) weight(h Holder) int {
	if h.Run == "" {
		return s.Window
	}
	return 1
}

// find returns the seat that a claim has to get, at once or later, or nil if that is not
// certain yet. Its caller holds mu.
func (s *Seats) find(c *claim) *Seat {
	var free, oldest *Seat
	for _, it := range s.list {
		switch {
		case c.Run != "" && it.Holder == c.Holder && it.own == c.own && !it.over:
			return it
		case it.Busy > 0 || it.Number > s.most:
		case it.Run == "":
			free = it
		case oldest == nil || it.turn < oldest.turn:
			oldest = it
		}
	}
	switch {
	case free != nil:
		return free
	case len(s.list) < s.most:
		s.list = append(s.list, &Seat{Number: len(s.list) + 1})
		return s.list[len(s.list)-1]
	case oldest != nil && !(c.own && oldest.own):
		s.free(oldest)
	}
	return oldest
}

// Leave ends the use of a seat by an attempt of a holder.
func (s *Seats) Leave(it *Seat, h Holder) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it.Busy -= s.weight(h)
	if it.Busy == 0 && (it.over || it.Number > s.most) {
		s.free(it)
	}
	s.give()
}

// Resize sets how many seats there should be.
func (s *Seats) Resize(most int) {
	s.mu.Lock()
	s.most = most
	s.give()
	s.mu.Unlock()
	s.end(func(it *Seat) bool { return it.Number > most })
}

// free ends the process of a seat, if it has one. Its caller holds mu.
func (s *Seats) free(it *Seat) (ended <-chan struct{}) {
	if it.Run != "" {
		ended = s.Dismiss(it.Number)
	}
	*it = Seat{Number: it.Number}
	return ended
}

// End ends the processes of runs for which over holds. ended are closed when those that
// were not busy have exited.
func (s *Seats) End(over func(it *Seat) bool) (ended []<-chan struct{}) {
	return s.end(func(it *Seat) bool { return !it.own && over(it) })
}

func (s *Seats) end(over func(c *Seat) bool) (ended []<-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.list {
		switch {
		case c.Run == "" || !over(c):
		case c.Busy > 0:
			c.over = true
		default:
			ended = append(ended, s.free(c))
		}
	}
	return ended
}
