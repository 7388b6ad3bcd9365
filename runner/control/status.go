package control

import (
	"cmp"
	"slices"
	"time"

	"crew/runner/task"
)

// longest is how many bytes of a command are shown. Whole ones can be megabytes.
const longest = 1000

// StatusOf returns the JSON form of a snapshot. total, which may be nil, returns the
// number of tasks of the whole input, if that is known.
func StatusOf(s *task.Snapshot, total func() (tasks int64, known bool)) *Status {
	st := &s.Stats
	out := &Status{
		At: s.At, State: s.State.String(), Since: st.Start, Elapsed: task.Seconds(st.Elapsed(s.At)),
		Progress: progress(s, total), Outcomes: outcomes(&st.ByOutcome), Retried: st.Retried, Lost: st.Lost,
		InputEnd: st.InputEnd, Queued: int64(s.Queued), Buffer: int64(s.Buffer), Aside: int64(s.Aside),
		Held: st.Finished() - st.Released, Rate: st.Rate(s.At),
		Workers: []Worker{}, Tasks: []Where{}, Waits: []Blocking{}, Blocking: blocking(s.Blocking, s.At),
	}
	if st.Resumed() > 0 {
		out.Earlier = outcomes(&st.Earlier)
	}
	for _, slot := range s.Slots {
		w := Worker{Worker: slot.ID, Host: slot.Host}
		if slot.Cap > 1 {
			w.Places = slot.Cap
		}
		out.Workers = append(out.Workers, w)
	}
	for i := range s.Running {
		out.Tasks = append(out.Tasks, running(&s.Running[i], s.At))
	}
	for i := range s.Waiting {
		out.Waits = append(out.Waits, *blocking(&s.Waiting[i], s.At))
	}
	out.ETA = eta(s, out.Total)
	return out
}

// eta returns how long the rest of the tasks takes. It is nil if that cannot
// be said, as when they do not all run.
func eta(s *task.Snapshot, total *int64) *task.Seconds {
	byHand := func(b task.Blocking) bool { return b.By == task.ByHold || b.By == task.ByTime }
	if total == nil || s.State >= task.Drains || slices.ContainsFunc(s.Waiting, byHand) {
		return nil
	}
	ages := make([]time.Duration, len(s.Running))
	for i, r := range s.Running {
		ages[i] = s.At.Sub(r.Since)
	}
	left, ok := s.Stats.ETA(max(0, *total-s.Stats.Finished()-s.Stats.Running), ages, s.At)
	if !ok {
		return nil
	}
	return (*task.Seconds)(&left)
}

func progress(s *task.Snapshot, total func() (int64, bool)) Progress {
	st := &s.Stats
	p := Progress{Done: st.Done(), Failed: st.Failed(), Skipped: st.Of(task.Skipped), Dropped: st.Finished() - st.Done(), Running: st.Running}
	p.Waiting = max(0, st.Admitted-st.Finished()-p.Running)
	if st.InputEnd {
		p.Total = &st.Admitted
	}
	if total != nil {
		if all, known := total(); known {
			p.Total = &all
		}
	}
	return p
}

// outcomes returns the counts that are not zero, by name.
func outcomes(counts *[task.Outcomes]int64) map[string]int64 {
	by := map[string]int64{}
	for o, n := range counts {
		if n != 0 {
			by[task.Outcome(o).String()] = n
		}
	}
	return by
}

// running describes a running attempt.
func running(r *task.Running, now time.Time) Where {
	shown := command(r.Task, r.Slot, r.Host, r.Units)
	return Where{State: "running", Tag: task.Bytes(r.Task.TagOn(r.Slot, r.Host, r.Units)), Apart: task.Bytes(r.Task.Apart()), Note: note(r.Task), Record: record(r.Task, shown), Facts: task.Facts{
		Task: r.Task.ID, Key: task.Bytes(r.Task.Key), Command: shown, Attempt: r.Attempt, Worker: r.Slot, Host: task.Bytes(r.Host), Units: r.Units,
		Start: r.Since, Duration: task.Seconds(max(0, now.Sub(r.Since))),
	}}
}

// command returns the command of an attempt as a person would type it on a worker of a host
// where it holds units.
func command(t *task.Task, worker int, host string, units []task.Units) task.Bytes {
	return task.Bytes(t.ShortCommandLine(t.ArgvOn(worker, host, units), longest))
}

// record returns by what people recognize a task whose command is shown, if that does
// not tell.
func record(t *task.Task, shown task.Bytes) task.Bytes { return task.Bytes(t.Beside(string(shown))) }

func note(t *task.Task) task.Bytes { return task.Bytes(t.Terms().Note) }

// causeName returns the name of what tasks wait for.
func causeName(by task.Cause) string {
	return [...]string{
		task.ByPause: "pause", task.ByEnd: "end", task.BySlots: "workers", task.BySlot: "worker", task.ByKey: "key",
		task.ByLimit: "limit", task.ByRetry: "retry", task.ByDelay: "delay", task.ByOrder: "order", task.ByReader: "reader",
		task.ByInput: "input", task.ByAfter: "after", task.ByWorkers: "ends", task.ByTokens: "token", task.ByCheck: "check",
		task.ByHold: "hold", task.ByTime: "time", task.ByRate: "rate", task.ByKeyRate: "key-rate",
		task.ByNeeds: "needs", task.ByOffers: "offers", task.ByPlaces: "places", task.ByLoad: "load", task.ByMemory: "memory",
	}[by]
}

func blocking(b *task.Blocking, now time.Time) *Blocking {
	if b == nil {
		return nil
	}
	return &Blocking{
		By: causeName(b.By), Text: b.Text(now), Tasks: b.Tasks, Input: b.Input, Key: task.Bytes(b.Key),
		Worker: b.Slot, Limit: b.Limit, Task: b.ID, Until: b.Until,
	}
}

func wheresOf(list []task.Where) (all []Where) {
	now := time.Now()
	for i := range list {
		all = append(all, whereOf(&list[i], now))
	}
	return all
}

func whereOf(w *task.Where, now time.Time) Where {
	out := Where{Held: w.Held, Blocking: blocking(w.Blocking, now)}
	switch {
	case w.Running != nil:
		out = running(w.Running, now)
	case w.Blocking != nil:
		out.State = "waiting"
	case w.Held != 0:
		out.State = "held"
	case w.Known:
		out.State = "ended"
	default:
		out.State = "unknown"
	}
	if w.Task != nil && w.Running == nil {
		out.Key, out.Note, out.Command = task.Bytes(w.Task.Key), note(w.Task), command(w.Task, 0, "", nil)
		out.Record = record(w.Task, out.Command)
	}
	out.Task, out.Attempt, out.Outcome = w.ID, cmp.Or(out.Attempt, w.Attempt), w.Outcome
	return out
}

// recall adds what is kept of the last attempt.
func (w *Where) recall(p *task.Past) {
	w.Facts, w.Record, w.Apart, w.Note = p.Facts, p.Record, p.Apart, p.Note
}

// eventOf describes an event and what it is about. The name is empty if watch does not
// tell it.
func eventOf(e *task.Event) (f task.Facts, out Event) {
	out = Event{At: e.At, Text: e.Text, Name: [...]string{
		task.Admitted: "admitted", task.Started: "started", task.Retried: "retried", task.Finished: "finished", task.Released: "",
		task.InputEnd: "input-end", task.Resized: "resized", task.Draining: "draining", task.Stopping: "stopping",
		task.Blocked: "blocked", task.Continued: "continued", task.Notice: "notice",
	}[e.Kind]}
	var argv []string
	switch e.Kind {
	case task.Started:
		f.Worker, f.Host, f.Units, f.Attempt = e.Slot, task.Bytes(e.Host), e.Units, e.Attempt
	case task.Retried, task.Finished:
		f, argv = e.Result.Facts(), e.Result.Argv
		out.Wait = task.Seconds(e.Wait)
	case task.Resized:
		out.Workers = e.Slot
	case task.Blocked:
		out.Blocking = blocking(e.Blocking, e.At)
	case task.Continued:
		out.Wait = task.Seconds(e.Wait)
	}
	if t := e.Task; t != nil {
		if len(argv) == 0 {
			argv = t.ArgvOn(e.Slot, e.Host, e.Units)
		}
		f.Task, f.Key, f.Command = t.ID, task.Bytes(t.Key), task.Bytes(t.ShortCommandLine(argv, longest))
	}
	return f, out
}

const (
	// share is the part of the time, as a divisor, for which questions may hold the
	// door.
	share = 20
	// rarest is the longest wait for an answer.
	rarest = 500 * time.Millisecond
)

// ask asks the run a question whose answer can take a while. Together such questions hold
// the door for a small share of the time only, however many clients ask.
func (s *Server) ask(cmd task.Command) task.Reply {
	s.turn.Lock()
	defer s.turn.Unlock()
	return s.next(cmd)
}

// next is ask for a caller that holds turn.
func (s *Server) next(cmd task.Command) task.Reply {
	if wait := time.Until(s.from); wait > 0 {
		select {
		case <-time.After(wait):
		case <-s.closing:
		}
	}
	began := time.Now()
	reply := s.cfg.Do(cmd)
	now := time.Now()
	s.from = now.Add(min(share*now.Sub(began), rarest))
	return reply
}

// snapshot returns a snapshot that is not older than the call. Those who ask while
// one is on the way share it.
func (s *Server) snapshot() (*task.Snapshot, error) {
	asked := time.Now()
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.latest == nil || s.latest.At.Before(asked) {
		reply := s.next(task.Command{Op: task.Look})
		if reply.Snapshot == nil || reply.Err != nil {
			return nil, cmp.Or(reply.Err, error(errOver))
		}
		s.latest = reply.Snapshot
	}
	return s.latest, nil
}
