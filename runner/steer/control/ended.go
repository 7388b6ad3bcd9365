package control

import (
	"fmt"
	"maps"
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

// newEndedAttempt returns the memory of the attempt that ended with e.
func newEndedAttempt(e *task.Event) *endedAttempt {
	r := e.Result
	p := &endedAttempt{size: e.Task.Size()}
	p.State, p.Of, p.Facts, p.Argv = "ended", e.Task, r.Facts(), r.Argv
	if p.Task = e.Task.ID; p.Exit != nil {
		p.Exit = new(*p.Exit) // otherwise it would hold all of r
	}
	for i, o := range [...]task.Output{r.Stdout, r.Stderr} {
		if n := task.Length(o); n > 0 {
			text, _ := task.Tail(o, pastTail) // a read error ends the run by other means
			p.Outputs[i], p.Cut[i], p.Kept = spool.Text(text), n-int64(len(text)), true
		}
	}
	if len(r.Tail) > 0 {
		p.Outputs[1], p.Kept = spool.Text(r.Tail), true
	}
	if e.Kind == task.Retried {
		p.State, p.Blocking = "waiting", &task.Blocking{By: task.ByRetry, Tasks: 1, Until: e.At.Add(e.Wait)}
	}
	return p
}

// remember remembers how an attempt ended. The caller must hold mu.
func (k *Sink) remember(e *task.Event) {
	r := e.Result
	if r.FromEarlierRun() || r.Unbegun {
		return
	}
	if r.Attempt > 1 || len(r.Before) > 0 {
		k.past = slices.DeleteFunc(k.past, func(was *endedAttempt) bool { return was.Task == e.Task.ID })
	}
	if succeeded(e) {
		if k.ahead--; k.ahead >= maxPast { // trim would drop it
			k.forgot = true
			return
		}
	}
	p := newEndedAttempt(e)
	k.past = slices.Insert(k.past, 0, p)
	if k.size += p.size; len(k.past) > 3*maxPast || k.size > 3*pastBytes { // rarely, because trim is slow
		k.trim()
	}
}

// succeeded reports whether e is the end of a task that succeeded in this run.
func succeeded(e *task.Event) bool {
	return e.Kind == task.Finished && e.Result.Outcome == task.OK && !e.Result.FromEarlierRun()
}

// trim drops the oldest attempts above the limits. The caller must hold mu.
func (k *Sink) trim() {
	var n, size [2]int // of attempts that did not fail, and that failed
	k.past = slices.DeleteFunc(k.past, func(p *endedAttempt) bool {
		i := 0
		if p.Outcome.Failed() {
			i = 1
		}
		if n[i] == maxPast || n[i] > 0 && size[i]+p.size > pastBytes {
			k.forgot = true
			return true
		}
		n[i]++
		size[i] += p.size
		return false
	})
	k.size = size[0] + size[1]
}

// remembered returns the tasks that are remembered, the latest first. forgot reports whether others were
// dropped.
func (k *Sink) remembered() (list []task.Where, forgot bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trim()
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
	if s.cfg.Latest != nil {
		for _, p := range s.cfg.Latest(n, failed) {
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

// records returns the known facts of ended tasks: from memory and, if all, from the journal. The caller closes
// the outputs.
func (s *Server) records(ids []uint64, all bool) map[uint64]task.EndedTask {
	known := map[uint64]task.EndedTask{}
	list, _ := s.sink.remembered()
	for _, w := range list {
		if w.Blocking == nil && slices.Contains(ids, w.Task) {
			w.Kept = w.Kept || s.cfg.Live != nil
			known[w.Task] = w.ForClients(time.Now()).EndedTask
		}
	}
	if all && len(known) < len(ids) && s.cfg.Ended != nil {
		missing := slices.DeleteFunc(slices.Clone(ids), func(id uint64) bool { return known[id].Task != 0 })
		maps.Copy(known, s.cfg.Ended(missing...))
	}
	return known
}
