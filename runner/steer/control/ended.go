package control

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"crew/runner/decide/task"
)

// A run remembers so many of the tasks that failed lately, and so many others that have
// ended.
const (
	maxPast   = 50
	pastBytes = 1 << 20 // the size of the tasks of each kind, unless it is one task
	pastTail  = 8 << 10 // bytes of the end of stdout, and of stderr
)

// tail is the end of an output as a task.Live.
type tail []byte

func (t tail) ReadAt(p []byte, off int64) (int, error) { return bytes.NewReader(t).ReadAt(p, off) }

// Close does nothing.
func (tail) Close() error { return nil }

// past is what is kept of an attempt that ended.
type endedAttempt struct {
	task    *task.Task
	size    int         // of the task
	result  task.Result // without outputs
	outs    [2]tail
	cut     [2]int64
	retryAt time.Time // when the task is tried again; zero if it is not
}

func newEndedAttempt(e *task.Event) *endedAttempt {
	r := e.Result
	p := &endedAttempt{task: e.Task, size: e.Task.Size(), result: *r}
	p.result.Stdout, p.result.Stderr, p.result.Before, p.result.Tail = nil, nil, nil, nil
	for i, o := range [...]task.Output{r.Stdout, r.Stderr} {
		if n := task.Length(o); n > 0 {
			text, _ := o.Tail(pastTail) // an error has ended the run, or will
			p.outs[i], p.cut[i] = text, n-int64(len(text))
		}
	}
	if len(r.Tail) > 0 {
		p.outs[1] = r.Tail
	}
	if e.Kind == task.Retried {
		p.retryAt = e.At.Add(e.Wait)
	}
	return p
}

// where tells where the task was when the attempt had ended. It is made when somebody asks: most of
// what is remembered nobody asks about.
func (p *endedAttempt) where() task.Where {
	w := task.NewWhere("ended", p.task)
	w.EndedTask = task.EndedTask{Facts: p.result.Facts(), Argv: p.result.Argv, Cut: p.cut}
	for i, o := range p.outs {
		if len(o) > 0 {
			w.Outputs[i], w.Kept = o, true
		}
	}
	if w.Task = p.task.ID; !p.retryAt.IsZero() {
		w.State, w.Blocking = "waiting", &task.Blocking{By: task.ByRetry, Tasks: 1, Until: p.retryAt}
	}
	return w
}

// note remembers how an attempt ended. The caller must hold mu.
func (k *Sink) remember(e *task.Event) {
	r := e.Result
	if r.Known() || r.Unbegun {
		return
	}
	if r.Attempt > 1 || len(r.Before) > 0 {
		k.past = slices.DeleteFunc(k.past, func(was *endedAttempt) bool { return was.task.ID == e.Task.ID })
	}
	p := newEndedAttempt(e)
	k.past = slices.Insert(k.past, 0, p)
	if k.size += p.size; len(k.past) > 3*maxPast || k.size > 3*pastBytes { // seldom, as it takes long
		k.trim()
	}
}

// trim forgets all but the latest. The caller must hold mu.
func (k *Sink) trim() {
	var n, size [2]int // of those that did not fail, and of those that did
	k.past = slices.DeleteFunc(k.past, func(p *endedAttempt) bool {
		i := 0
		if p.result.Outcome.Failed() {
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

// remembered returns what is remembered of tasks that have ended or failed, the latest first, and whether
// others are forgotten.
func (k *Sink) remembered() (list []task.Where, forgot bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trim()
	for _, p := range k.past {
		list = append(list, p.where())
	}
	return list, k.forgot
}

// find returns what is remembered of a task, or nil.
func (k *Sink) lookup(id uint64) *task.Where {
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.IndexFunc(k.past, func(p *endedAttempt) bool { return p.task.ID == id }); i >= 0 {
		w := k.past[i].where()
		return &w
	}
	return nil
}

// endedLast lists the tasks that ended last, or those that failed, the latest last: those that
// are recorded or, without a record, remembered.
func (s *Server) lastEnded(n int, failed bool) *Reply {
	reply := &Reply{}
	if s.cfg.Details.Latest != nil {
		for _, p := range s.cfg.Details.Latest(n, failed) {
			reply.Wheres = append(reply.Wheres, task.Where{State: "ended", EndedTask: p})
		}
		return reply
	}
	list, forgot := s.sink.remembered()
	list = slices.DeleteFunc(list, func(w task.Where) bool { return w.Blocking != nil || failed && !w.Outcome.Failed() })
	reply.Wheres = forClients(list[:min(n, len(list))], time.Now())
	slices.Reverse(reply.Wheres)
	if forgot {
		reply.Hint = fmt.Sprintf("no more is known than of the last %d that failed and the last %d others: --state DIR keeps all", maxPast, maxPast)
	}
	return reply
}

// recall adds what is known of those tasks that have ended: what is remembered and, if
// all, what is recorded.
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
		} else if all && s.cfg.Details.Ended == nil && w.State == "ended" && w.Outcome == 0 {
			w.Hint = "--state DIR keeps more"
		}
	}
}

// known returns what is known of tasks that have ended: what is remembered and, if all, what is
// recorded of others. The caller closes the outputs.
func (s *Server) records(ids []uint64, all bool) map[uint64]task.EndedTask {
	known := map[uint64]task.EndedTask{}
	list, _ := s.sink.remembered()
	for _, w := range list {
		if w.Blocking == nil && slices.Contains(ids, w.Task) {
			w.Kept = w.Kept || s.cfg.Details.Live != nil
			known[w.Task] = w.ForClients(time.Now()).EndedTask
		}
	}
	if all && len(known) < len(ids) && s.cfg.Details.Ended != nil {
		missing := slices.DeleteFunc(slices.Clone(ids), func(id uint64) bool { return known[id].Task != 0 })
		maps.Copy(known, s.cfg.Details.Ended(missing...))
	}
	return known
}
