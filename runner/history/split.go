package history

import (
	"bytes"
	"slices"
	"time"
	"unsafe"
)

// splitter finds where one of several runs ends whose results a file has one after the
// other: where a task's number comes again. As results come in the order of their ends,
// some of the later run may have come before that. So the cut is where the last one began
// before which all earlier ones had ended, if there is such a place among the results that
// it holds back for that.
type splitter struct {
	begin func(at time.Time) error // a run begins
	emit  func(*Line) error

	seen  map[uint64]uint64 // the tasks of the run, 64 to a word
	until time.Time         // the latest end in the run; zero if there is none
	held  []result          // the latest results, from the first cut on
	cuts  []cut             // places where another run may have begun
	size  int               // bytes of held
}

// result is a task with its attempts.
type result struct {
	task       uint64
	start, end time.Time // of the first attempt and the last; zero if they are unknown
	lines      []Line
}

// cut is a place before the result held[at]: until then, all before had ended.
type cut struct {
	at    int
	until time.Time
}

// maxHeld is how many bytes a splitter holds back.
const maxHeld = 16 << 20

// add takes the next result. Its lines are valid until add returns.
func (s *splitter) add(r *result) error {
	if err := s.uncut(r); err != nil {
		return err
	}
	quiet := !r.start.IsZero() && !r.start.Before(s.until)
	switch {
	case s.seen == nil:
		if err := s.renew(r.start); err != nil {
			return err
		}
	case s.has(r.task):
		if err := s.split(r, quiet); err != nil {
			return err
		}
	case quiet:
		s.cuts = append(s.cuts, cut{len(s.held), s.until})
	}
	s.note(r)
	if len(s.cuts) == 0 {
		return s.tell(r)
	}
	s.hold(r)
	if s.size > maxHeld {
		return s.release(s.cuts[(len(s.cuts)+1)/2:])
	}
	return nil
}

// uncut removes the cuts before which r had begun.
func (s *splitter) uncut(r *result) error {
	n := len(s.cuts)
	for n > 0 && !r.start.IsZero() && r.start.Before(s.cuts[n-1].until) {
		n--
	}
	if s.cuts = s.cuts[:n]; n == 0 {
		return s.release(nil)
	}
	return nil
}

// split begins a run with r, or with the results since the last cut if r's task is none of them.
func (s *splitter) split(r *result, quiet bool) error {
	from := len(s.held)
	if n := len(s.cuts); n > 0 && !quiet {
		at := s.cuts[n-1].at
		if !slices.ContainsFunc(s.held[at:], func(h result) bool { return h.task == r.task }) {
			from = at
		}
	}
	for i := range s.held[:from] {
		if err := s.tell(&s.held[i]); err != nil {
			return err
		}
	}
	begun := append(slices.Clone(s.held[from:]), *r)
	s.held, s.cuts, s.size = s.held[:0], s.cuts[:0], 0
	if err := s.renew(begun[0].start); err != nil {
		return err
	}
	for i := range begun[:len(begun)-1] {
		s.note(&begun[i])
		if err := s.tell(&begun[i]); err != nil {
			return err
		}
	}
	return nil
}

// release tells what is held before the first of the cuts that are left.
func (s *splitter) release(cuts []cut) error {
	n := len(s.held)
	if len(cuts) > 0 {
		n = cuts[0].at
	}
	for i := range s.held[:n] {
		if err := s.tell(&s.held[i]); err != nil {
			return err
		}
		s.size -= sizeOf(&s.held[i])
	}
	s.held = slices.Delete(s.held, 0, n)
	s.cuts = append(s.cuts[:0], cuts...)
	for i := range s.cuts {
		s.cuts[i].at -= n
	}
	return nil
}

// end tells what is held. Results that follow are of another run.
func (s *splitter) end() error {
	err := s.release(nil)
	s.seen, s.until = nil, time.Time{}
	return err
}

// renew begins a run.
func (s *splitter) renew(at time.Time) error {
	s.seen, s.until = map[uint64]uint64{}, time.Time{}
	return s.begin(at)
}

func (s *splitter) note(r *result) {
	s.seen[r.task/64] |= 1 << (r.task % 64)
	if r.end.After(s.until) {
		s.until = r.end
	}
}

func (s *splitter) has(task uint64) bool { return s.seen[task/64]>>(task%64)&1 > 0 }

func (s *splitter) hold(r *result) {
	h := *r
	h.lines = slices.Clone(r.lines)
	for i := range h.lines {
		h.lines[i].Output = bytes.Clone(h.lines[i].Output)
	}
	s.held = append(s.held, h)
	s.size += sizeOf(&h)
}

func sizeOf(r *result) (n int) {
	for i := range r.lines {
		l := &r.lines[i]
		n += len(l.Command) + len(l.Key) + len(l.Error) + len(l.Output)
	}
	return n + int(unsafe.Sizeof(Line{}))*len(r.lines)
}

func (s *splitter) tell(r *result) error {
	for i := range r.lines {
		if err := s.emit(&r.lines[i]); err != nil {
			return err
		}
	}
	return nil
}
