package web

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"crew/runner/steer/control"
)

const (
	mostOver = 8           // runs that are over and still listed
	keptFor  = time.Minute // how long to keep the lines of a run that is over
)

// lookAgain looks for runs until ctx ends.
func (s *server) lookAgain(ctx context.Context) {
	for pause(ctx, lookEvery) {
		s.look(ctx)
	}
}

// look looks for runs and starts to watch new ones, until ctx ends.
func (s *server) look(ctx context.Context) {
	found := control.List()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range found {
		if r := s.runs[h.PID]; r != nil && r.meet(h) {
			continue
		}
		r := newRun(h)
		s.runs[h.PID] = r
		s.wg.Go(func() { r.follow(ctx) })
	}
	s.forget()
}

// forget drops runs, or their lines, that have been over for long. The caller must hold mu.
func (s *server) forget() {
	over := 0
	for _, r := range s.sorted() {
		if r.over.IsZero() {
			continue
		}
		if over++; over > mostOver {
			delete(s.runs, r.hello.PID)
		} else if time.Since(r.over) > keptFor {
			r.run.forget()
		}
	}
}

// find returns the run with a process ID, or nil if there is none.
func (s *server) find(pid string) *run {
	n, _ := strconv.Atoi(pid)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[n]
}

// seen is a snapshot of a run.
type seen struct {
	run   *run
	hello control.Hello
	over  time.Time // when it ended; zero if it has not
}

// list returns the runs: first those that are not over, oldest first, then the others, the last to end
// first.
func (s *server) list() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted()
}

// sorted is like list. The caller must hold mu.
func (s *server) sorted() (list []seen) {
	for _, r := range s.runs {
		h, over := r.about()
		list = append(list, seen{r, h, over})
	}
	slices.SortFunc(list, func(a, b seen) int {
		if a.over.IsZero() || b.over.IsZero() {
			a.over, b.over = b.over, a.over // the zero time is the latest
		}
		return cmp.Or(b.over.Compare(a.over), a.hello.Since.Compare(b.hello.Since), a.hello.PID-b.hello.PID)
	})
	return list
}
