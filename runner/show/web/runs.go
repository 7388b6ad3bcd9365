package web

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"crew/runner/steer/control"
)

// mostOver is the number of runs that are over and still listed.
const mostOver = 8

// keepFinding looks for runs until ctx ends.
func (s *server) keepFinding(ctx context.Context) {
	for pause(ctx, lookEvery) {
		s.findRuns(ctx)
	}
}

// findRuns looks for runs and starts to watch new ones, until ctx ends.
func (s *server) findRuns(ctx context.Context) {
	found := control.List()
	s.mu.Lock()
	for _, h := range found {
		if r := s.runs[h.PID]; r != nil && r.update(h) {
			continue
		}
		r := newRun(h)
		s.runs[h.PID] = r
		s.wg.Go(func() { r.follow(ctx) })
	}
	s.mu.Unlock()
	s.forget()
}

// forget drops runs that are over, except the last mostOver.
func (s *server) forget() {
	over := 0
	for _, r := range s.list() {
		if r.Over.IsZero() {
			continue
		}
		if over++; over > mostOver {
			s.mu.Lock()
			delete(s.runs, r.PID)
			s.mu.Unlock()
		}
	}
}

// find returns the run with a process ID, or nil.
func (s *server) find(pid string) *run {
	n, _ := strconv.Atoi(pid)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs[n]
}

// snapshot is a run with what to show of it at one moment.
type snapshot struct {
	run *run
	shown
}

// list returns the runs: first those that are not over, oldest first, then the others, the last to end
// first.
func (s *server) list() (list []snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.runs {
		list = append(list, snapshot{r, r.now()})
	}
	slices.SortFunc(list, func(a, b snapshot) int {
		if a.Over.IsZero() || b.Over.IsZero() {
			a.Over, b.Over = b.Over, a.Over // the zero time is the latest
		}
		return cmp.Or(b.Over.Compare(a.Over), a.Hello.Since.Compare(b.Hello.Since), a.Hello.PID-b.Hello.PID)
	})
	return list
}
