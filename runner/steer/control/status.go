package control

import (
	"cmp"
	"slices"
	"time"

	"crew/runner/decide/task"
)

// StatusOf returns the status for a snapshot. total is as in Details; it may be nil.
func StatusOf(s *task.Snapshot, total func(*task.Stats) (tasks, done int64, known bool)) *Status {
	st := &s.Stats
	out := &Status{
		Snapshot: *s, State: s.State.String(), Since: st.Start, Elapsed: task.Seconds(st.Elapsed(s.At)),
		Progress: Progress{Done: st.Done(), Failed: st.Failed(), Skipped: st.ByOutcome[task.Skipped], Dropped: st.Finished() - st.Done(), Running: st.Running, Waiting: max(0, st.Waiting())},
		Outcomes: outcomes(&st.ByOutcome), Earlier: outcomes(&st.Earlier), Retried: st.Retried, Lost: st.Lost,
		InputEnd: st.InputEnd, Held: st.Finished() - st.Released, Rate: st.Rate(s.At),
	}
	if st.InputEnd {
		out.Total = &st.Admitted
	}
	if total != nil {
		if all, done, known := total(st); known {
			out.Total, out.Done = &all, done
		}
	}
	out.Slots, out.Tasks, out.Snapshot.Waiting, out.Blocking = append([]task.Slot{}, s.Slots...), forClients(s.Tasks, s.At), []task.Blocking{}, s.Blocking.WithText(s.At)
	for i := range s.Waiting {
		out.Snapshot.Waiting = append(out.Snapshot.Waiting, *s.Waiting[i].WithText(s.At))
	}
	out.ETA = eta(s, &out.Progress)
	return out
}

// eta estimates how long the remaining tasks take. It returns nil if there is no estimate, for example
// because some of them will not run.
func eta(s *task.Snapshot, p *Progress) *task.Seconds {
	byHand := func(b task.Blocking) bool { return b.By == task.ByHold || b.By == task.ByTime }
	if p.Total == nil || s.State >= task.StateDraining || slices.ContainsFunc(s.Waiting, byHand) {
		return nil
	}
	ages := make([]time.Duration, len(s.Tasks))
	for i := range s.Tasks {
		ages[i] = time.Duration(s.Tasks[i].Duration)
	}
	left, ok := s.Stats.ETA(max(0, *p.Total-p.Done-p.Dropped-p.Running), ages, s.At)
	if !ok {
		return nil
	}
	return (*task.Seconds)(&left)
}

// outcomes returns the counts that are not zero, by the name of the outcome.
func outcomes(counts *[task.Outcomes]int64) map[string]int64 {
	by := map[string]int64{}
	for o, n := range counts {
		if n != 0 {
			by[task.Outcome(o).String()] = n
		}
	}
	return by
}

// forClients returns tasks in the form for clients.
func forClients(list []task.Where, now time.Time) []task.Where {
	all := make([]task.Where, len(list))
	for i := range list {
		all[i] = list[i].ForClients(now)
	}
	return all
}

// newEvent returns the facts of an event's task, and the event in the form for clients. Its name is empty if
// watch does not send it.
func newEvent(e *task.Event) (f task.Facts, out Event) {
	out = Event{At: e.At, Text: e.Text, Wait: task.Seconds(e.Wait), Blocking: e.Blocking.WithText(e.At), Name: [...]string{
		task.Admitted: "admitted", task.Started: "started", task.Retried: "retried", task.Finished: "finished", task.Released: "",
		task.InputEnd: "input-end", task.Resized: "resized", task.Draining: "draining", task.Stopping: "stopping",
		task.Blocked: "blocked", task.Continued: "continued", task.Notice: "notice",
	}[e.Kind]}
	var argv []string
	switch e.Kind {
	case task.Started:
		f.Worker, f.Host, f.Units, f.Attempt = e.Slot, task.Bytes(e.Host), e.Units, e.Attempt
	case task.Retried, task.Finished:
		f, argv, out.Flaky = e.Result.Facts(), e.Result.Argv, e.Result.Flaky()
	case task.Resized:
		out.Workers = e.Slot
	}
	if t := e.Task; t != nil {
		f.Describe(t, argv)
	}
	return f, out
}

const (
	// askShare limits ask to one part in askShare of the time.
	askShare = 20
	// maxAskWait bounds how long ask makes the next query wait.
	maxAskWait = 500 * time.Millisecond
)

// ask carries out a query that can take the run a while. All such queries together take only a small share of
// the run's time, however many clients there are. Clients that wait for a snapshot at the same time share
// one.
func (s *Server) ask(cmd task.Command) task.Reply {
	asked := time.Now()
	s.turn.Lock()
	defer s.turn.Unlock()
	if cmd.Op == task.Look && s.latest != nil && !s.latest.At.Before(asked) {
		return task.Reply{Snapshot: s.latest}
	}
	select {
	case <-time.After(time.Until(s.nextAsk)):
	case <-s.closing:
	}
	began := time.Now()
	reply := s.cfg.Do(cmd)
	now := time.Now()
	s.nextAsk, s.latest = now.Add(min(askShare*now.Sub(began), maxAskWait)), cmp.Or(reply.Snapshot, s.latest)
	return reply
}
