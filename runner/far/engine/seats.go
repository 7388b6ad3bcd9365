package engine

import (
	"context"
	"slices"
	"sync"
)

// Seats assigns attempts of several runs to the persistent workers of one machine. A seat is a
// numbered slot of coproc.Workers and has one process. It is not the slot in which the attempt runs
// here: a record must go to the process that had the earlier records of its slot in its own run. Seats
// is safe for concurrent use.
type Seats struct {
	Window  int                              // most records that a process may have at once
	Dismiss func(number int) <-chan struct{} // ends the process of a seat; see coproc.Workers

	mu       sync.Mutex
	max      int     // number of seats
	list     []*Seat // by number - 1
	lastTurn int     // counts assignments
	waiting  []*claim
}

// Seat is the place of one persistent worker. A Seat with only a Number is free.
type Seat struct {
	Number int
	RunSlot
	Busy int // records that it has; Window while a task that is no record has it

	own  bool // its process runs the machine's own command, which serves all runs
	over bool // its run is over: free it once it is not busy
	turn int  // Seats.lastTurn when it was last assigned
}

// RunSlot is a slot of a run. The zero RunSlot stands for tasks that are no records.
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

// Acquire returns a seat for an attempt of h, for the machine's own command or for a command in the
// attempt. It waits while the seat of h has a full window, or while others have all seats; in the
// latter case later calls wait, too. It returns nil if ctx is done before. The caller must call
// Release when the attempt has ended.
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

// assignLocked assigns seats to claims, in order. The caller must hold mu.
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

// findLocked returns the seat that a claim must get, now or once it has room, or nil if all seats are
// taken by others. The caller must hold mu.
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

// Release ends the use of a seat by an attempt of h.
func (s *Seats) Release(seat *Seat, h RunSlot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seat.Busy -= s.weight(h)
	if seat.Busy == 0 && seat.over {
		s.freeLocked(seat)
	}
	s.assignLocked()
}

// Resize sets the number of seats.
func (s *Seats) Resize(most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.max = most
	s.endLocked(func(seat *Seat) bool { return seat.Number > most })
	s.assignLocked()
}

// freeLocked frees a seat and ends its process, if it has one. ended is nil if it has none, and is
// closed when the process has exited. The caller must hold mu.
func (s *Seats) freeLocked(seat *Seat) (ended <-chan struct{}) {
	if seat.Run != "" {
		ended = s.Dismiss(seat.Number)
	}
	*seat = Seat{Number: seat.Number}
	return ended
}

// End ends the processes whose seats over selects, except processes of the machine's own command. A
// busy process ends after its records; the channels in ended are closed when the others have exited.
func (s *Seats) End(over func(seat *Seat) bool) (ended []<-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.endLocked(func(seat *Seat) bool { return !seat.own && over(seat) })
}

func (s *Seats) endLocked(over func(seat *Seat) bool) (ended []<-chan struct{}) {
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
