package engine

import (
	"cmp"
	"sync"
	"time"

	"crew/runner/task"
	"crew/runner/wiring"
)

// seats says which persistent worker takes an attempt. Each is a numbered slot of the
// executor, which keeps a process there. Slots of this worker's own run would not do:
// a record must go to the process that had those of its slot in the submitter's run.
type seats struct {
	mu    sync.Mutex
	list  []*seat // by number, less 1
	turns int     // counts takes

	dismiss func(number int) <-chan struct{} // see coproc.Workers
}

// seat is the place of a persistent worker. The zero seat but for its number is free.
type seat struct {
	number int
	holder
	own   bool // its process is that of this worker's own command, which serves all runs
	busy  bool
	over  bool // its run is over
	turn  int  // when it was last taken
	heard time.Duration
}

// holder is a slot of a run.
type holder struct {
	run   string
	epoch uint64
	slot  int
}

// take returns a seat for an attempt of a holder, of most that there should be. Its
// caller calls leave when the attempt has ended.
func (s *seats) take(h holder, own bool, most int) *seat {
	s.mu.Lock()
	defer s.mu.Unlock()
	var its, free, oldest *seat
	for _, c := range s.list {
		switch {
		case c.busy:
		case c.holder == h && c.own == own:
			its = c
		case c.run == "":
			free = c
		case oldest == nil || c.turn < oldest.turn:
			oldest = c
		}
	}
	c := cmp.Or(its, free)
	if c == nil && (oldest == nil || len(s.list) < most) {
		c = &seat{number: len(s.list) + 1}
		s.list = append(s.list, c)
	} else if c == nil {
		if c = oldest; !own || !c.own {
			s.free(c)
		}
	}
	s.turns++
	*c = seat{number: c.number, holder: h, own: own, busy: true, turn: s.turns, heard: sinceBoot()}
	return c
}

// leave ends the use of a seat, of most that there should be.
func (s *seats) leave(c *seat, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.busy = false; c.over || c.number > most {
		s.free(c)
	}
}

// free ends the process of a seat, if it has one. Its caller holds mu.
func (s *seats) free(c *seat) (ended <-chan struct{}) {
	if c.run != "" {
		ended = s.dismiss(c.number)
	}
	*c = seat{number: c.number}
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
		case c.busy:
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

// ownCommand reports whether the attempt is for the command of the worker.
func (h *job) ownCommand() bool { return len(h.Argv) == 0 && !h.Shell }
