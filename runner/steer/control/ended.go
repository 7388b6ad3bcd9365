package control

import (
	"fmt"
	"math"
	"slices"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/spool"
)

// A run remembers the last tasks that failed, and the last of the others that ended, within these limits for
// each of the two kinds.
const (
	maxPast   = 50
	pastBytes = 1 << 20 // size of the tasks, unless a single task is larger
	pastTail  = 8 << 10 // last bytes of stdout, and of stderr
)

// endedAttempt is the memory of an attempt that ended: the state of its task since then, with the ends of the
// outputs.
type endedAttempt struct {
	task.Where
	size int // of the task
}

// remember remembers how the attempts of a batch ended, and drops the oldest ones above the limits. The caller
// must hold mu.
func (k *Sink) remember(batch []task.Event) {
	var all [2]struct{ n, size int } // of attempts that did not fail, and that failed
	repeated := map[uint64]bool{}    // tasks with a later attempt
	var list []*endedAttempt
	kind := func(o task.Outcome) int {
		if o.Failed() {
			return 1
		}
		return 0
	}
	add := func(p *endedAttempt) bool {
		of := &all[kind(p.Outcome)]
		if of.n == maxPast || of.n > 0 && of.size+p.size > pastBytes {
			k.forgot = true
			return false
		}
		of.n++
		of.size += p.size
		list = append(list, p)
		return true
	}
	for i := range batch {
		e := &batch[len(batch)-1-i]
		r := e.Result
		switch {
		case e.Kind != task.Finished && e.Kind != task.Retried, r.FromEarlierRun(), r.Unbegun, repeated[e.Task.ID]:
			continue
		case r.Attempt > 1 || len(r.Before) > 0:
			repeated[e.Task.ID] = true
		}
		if all[kind(r.Outcome)].n == maxPast { // this takes less time than add
			k.forgot = true
		} else if p := newEndedAttempt(e); add(p) {
			p.keepTails(r)
		}
	}
	for _, p := range k.past {
		if !repeated[p.Task] {
			add(p)
		}
	}
	k.past = list
}

// newEndedAttempt returns the memory of the attempt that ended with e, without the ends of its outputs.
func newEndedAttempt(e *task.Event) *endedAttempt {
	r := e.Result
	p := &endedAttempt{size: e.Task.Size()}
	p.State, p.Of, p.Facts, p.Argv = "ended", e.Task, r.Facts(), r.Argv
	if p.Task = e.Task.ID; p.Exit != nil {
		p.Exit = new(*p.Exit) // otherwise it would hold all of r
	}
	if e.Kind == task.Retried {
		p.State, p.Blocking = "waiting", &task.Blocking{By: task.ByRetry, Tasks: 1, Until: e.At.Add(e.Wait)}
	}
	return p
}

// keepTails keeps the ends of the outputs of r.
func (p *endedAttempt) keepTails(r *task.Result) {
	for i, o := range [...]task.Output{r.Stdout, r.Stderr} {
		if n := task.Length(o); n > 0 {
			text, _ := task.Tail(o, pastTail) // a read error ends the run by other means
			p.Outputs[i], p.Cut[i], p.Kept = spool.Text(text), n-int64(len(text)), true
		}
	}
	if len(r.Tail) > 0 {
		p.Outputs[1], p.Kept = spool.Text(r.Tail), true
	}
}

// remembered returns the tasks that are remembered, the latest first. forgot reports whether others were
// dropped.
func (k *Sink) remembered() (list []task.Where, forgot bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.past {
		list = append(list, p.Where)
	}
	return list, k.forgot
}

// lookup returns the remembered task with this ID, or nil.
func (k *Sink) lookup(id uint64) *task.Where {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.IndexFunc(k.past, func(p *endedAttempt) bool { return p.Task == id }); i >= 0 {
		return &k.past[i].Where
	}
	return nil
}

// lastEnded lists the last n tasks that ended or, if failed, that failed. The latest comes last. It takes
// them from the journal or, without one, from memory.
func (s *Server) lastEnded(n int, failed bool) *Reply {
	reply := &Reply{}
	if s.cfg.Ended != nil {
		for _, p := range s.cfg.Ended(n, func(_ uint64, o task.Outcome) bool { return !failed || o.Failed() }) {
			reply.Wheres = append(reply.Wheres, task.Where{State: "ended", EndedTask: p})
		}
		return reply
	}
	list, forgot := s.sink.remembered()
	list = slices.DeleteFunc(list, func(w task.Where) bool { return w.Blocking != nil || failed && !w.Outcome.Failed() })
	reply.Wheres = forClients(list[:min(n, len(list))], time.Now())
	slices.Reverse(reply.Wheres)
	if forgot {
		reply.Hint = fmt.Sprintf("only the last %d failed tasks and the last %d others are known: --state DIR keeps all", maxPast, maxPast)
	}
	return reply
}

// addRecords adds the known facts of ended tasks to list: from memory and, if all, from the journal.
func (s *Server) addRecords(list []task.Where, all bool) {
	var ids []uint64
	for i := range list {
		if w := &list[i]; w.State == "ended" || w.State == "held" {
			ids = append(ids, w.Task)
		}
	}
	known := s.records(ids, all)
	for i := range list {
		w := &list[i]
		if p, ok := known[w.Task]; ok {
			w.EndedTask = p
		} else if all && s.cfg.Ended == nil && w.State == "ended" && w.Outcome == 0 {
			w.Hint = "--state DIR keeps more"
		}
	}
}

// records returns the known facts of ended tasks: from memory, with the ends of their outputs, and, if all, from
// the journal, without outputs.
func (s *Server) records(ids []uint64, all bool) map[uint64]task.EndedTask {
	known := map[uint64]task.EndedTask{}
	var missing []uint64
	for _, id := range ids {
		if w := s.sink.lookup(id); w == nil || w.Blocking != nil {
			missing = append(missing, id)
		} else {
			p := w.ForClients(time.Now()).EndedTask
			p.Kept = p.Kept || s.cfg.Live != nil
			known[id] = p
		}
	}
	if all && len(missing) > 0 && s.cfg.Ended != nil {
		for _, p := range s.cfg.Ended(math.MaxInt, func(id uint64, _ task.Outcome) bool { return slices.Contains(missing, id) }) {
			known[p.Task] = p
		}
	}
	return known
}
