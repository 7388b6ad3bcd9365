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

	mu       sync.Mutex
	max      int     // that there should be
	list     []*Seat // by number, less 1
	lastTurn int     // counts attempts
	waiting  []*claim
}

// Seat is the place of a persistent worker. The zero Seat but for its number is free.
type Seat struct {
	Number int
	RunSlot
	Busy int // records that it has; Window if a task has it that is none

	own  bool // its process is that of the machine's own command, which serves all runs
	over bool // its run is over
	turn int  // when it was last taken
}

// Holder is a slot of a run. The zero Holder is that of a task that is no record.
type RunSlot struct {
	Run   string
	Epoch uint64
	Slot  int
}

// claim is an attempt that waits for a seat.
type claim struct {
	RunSlot
	own   bool
	given chan *Seat
}

// Take returns a seat for an attempt of a holder, for the machine's own command or one that
// the attempt brings. It waits while that of the holder has its window full, or while
// others have all seats; then those that come later wait, too. It returns nil if ctx is
// done before. Its caller calls Leave when the attempt has ended.
func (s *Seats) Acquire(ctx context.Context, h RunSlot, own bool) *Seat {
	c := &claim{h, own, make(chan *Seat, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, c)
	s.assignLocked()
	s.mu.Unlock()
	select {
	case seat := <-c.given:
		return seat
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, c); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.assignLocked()
		return nil
	}
	return <-c.given
}

// give gives seats to the claims, in order. Its caller holds mu.
func (s *Seats) assignLocked() {
	none := false
	s.waiting = slices.DeleteFunc(s.waiting, func(c *claim) bool {
		if none {
			return false
		}
		seat := s.findLocked(c)
		if none = seat == nil; none || seat.Busy+s.weight(c.RunSlot) > s.Window {
			return false
		}
		s.lastTurn++
		seat.turn = s.lastTurn
		seat.Busy += s.weight(c.RunSlot)
		seat.RunSlot, seat.own = c.RunSlot, c.own
		c.given <- seat
		return true
	})
}

// weight is how much of a seat's window an attempt takes.
func (s *Seats) weight(h RunSlot) int {
	if h.Run == "" {
		return s.Window
	}
	return 1
}

// find returns the seat that a claim has to get, at once or later, or nil if that is not
// certain yet. Its caller holds mu.
func (s *Seats) findLocked(c *claim) *Seat {
	var free, oldest *Seat
	for _, seat := range s.list {
		switch {
		case c.Run != "" && seat.RunSlot == c.RunSlot && seat.own == c.own && !seat.over:
			return seat
		case seat.Busy > 0 || seat.Number > s.max:
		case seat.Run == "":
			free = seat
		case oldest == nil || seat.turn < oldest.turn:
			oldest = seat
		}
	}
	switch {
	case free != nil:
		return free
	case len(s.list) < s.max:
		s.list = append(s.list, &Seat{Number: len(s.list) + 1})
		return s.list[len(s.list)-1]
	case oldest != nil && !(c.own && oldest.own):
		s.freeLocked(oldest)
	}
	return oldest
}

// Leave ends the use of a seat by an attempt of a holder.
func (s *Seats) Release(seat *Seat, h RunSlot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seat.Busy -= s.weight(h)
	if seat.Busy == 0 && (seat.over || seat.Number > s.max) {
		s.freeLocked(seat)
	}
	s.assignLocked()
}

// Resize sets how many seats there should be.
func (s *Seats) Resize(most int) {
	s.mu.Lock()
	s.max = most
	s.assignLocked()
	s.mu.Unlock()
	s.endWhere(func(seat *Seat) bool { return seat.Number > most })
}

// free ends the process of a seat, if it has one. Its caller holds mu.
func (s *Seats) freeLocked(seat *Seat) (ended <-chan struct{}) {
	if seat.Run != "" {
		ended = s.Dismiss(seat.Number)
	}
	*seat = Seat{Number: seat.Number}
	return ended
}

// End ends the processes of runs for which over holds. ended are closed when those that
// were not busy have exited.
func (s *Seats) End(over func(seat *Seat) bool) (ended []<-chan struct{}) {
	return s.endWhere(func(seat *Seat) bool { return !seat.own && over(seat) })
}

func (s *Seats) endWhere(over func(seat *Seat) bool) (ended []<-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seat := range s.list {
		switch {
		case seat.Run == "" || !over(seat):
		case seat.Busy > 0:
			seat.over = true
		default:
			ended = append(ended, s.freeLocked(seat))
		}
	}
	return ended
}
