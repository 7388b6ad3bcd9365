package control

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"crew/runner/task"
)

// A run remembers so many of the tasks that failed lately, and so many others that have
// ended.
const (
	mostPast  = 50
	pastBytes = 1 << 20 // the size of the tasks of each kind, unless it is one task
	pastTail  = 8 << 10 // bytes of the end of stdout, and of stderr
)

// past is a task that has ended, or that has failed and may be tried again.
type past struct {
	size   int
	due    time.Time   // when it may be tried again; zero if it is not
	result task.Result // of the latest attempt, with its task and without outputs
	outs   [2][]byte   // the ends of stdout and stderr
	cut    [2]int64    // how many bytes came before these
}

// note remembers how an attempt ended. The caller must hold mu.
func (k *Sink) note(e *task.Event) {
	r := e.Result
	if r.Known() || r.Unbegun {
		return
	}
	p := &past{size: e.Task.Size(), result: *r}
	p.outs, p.cut = tails(r)
	p.result.Task = e.Task
	p.result.Stdout, p.result.Stderr, p.result.Before, p.result.Tail = nil, nil, nil, nil
	if e.Kind == task.Retried {
		p.due = e.At.Add(e.Wait)
	}
	if r.Attempt > 1 || len(r.Before) > 0 {
		k.past = slices.DeleteFunc(k.past, func(was *past) bool { return was.result.Task.ID == e.Task.ID })
	}
	k.past = slices.Insert(k.past, 0, p)
	if k.size += p.size; len(k.past) > 3*mostPast || k.size > 3*pastBytes { // seldom, as it takes long
		k.trim()
	}
}

// trim forgets all but the latest. The caller must hold mu.
func (k *Sink) trim() {
	var n, size [2]int // of those that did not fail, and of those that did
	k.past = slices.DeleteFunc(k.past, func(p *past) bool {
		i := 0
		if p.result.Outcome.Failed() {
			i = 1
		}
		if n[i] == mostPast || n[i] > 0 && size[i]+p.size > pastBytes {
			k.forgot = true
			return true
		}
		n[i]++
		size[i] += p.size
		return false
	})
	k.size = size[0] + size[1]
}

// tails returns the ends of what an attempt has written on stdout and stderr, and how many bytes come
// before these.
func tails(r *task.Result) (outs [2][]byte, cut [2]int64) {
	for i, o := range [...]task.Output{r.Stdout, r.Stderr} {
		if n := task.Length(o); n > 0 {
			outs[i], _ = o.Tail(pastTail) // an error has ended the run, or will
			cut[i] = n - int64(len(outs[i]))
		}
	}
	if len(r.Tail) > 0 {
		outs[1] = r.Tail
	}
	return outs, cut
}

// remembered returns what is remembered of tasks, the latest first, and whether others are forgotten.
func (k *Sink) remembered() (list []*past, forgot bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trim()
	return slices.Clone(k.past), k.forgot
}

// find returns what is remembered of a task, or nil.
func (k *Sink) find(id uint64) *past {
	list, _ := k.remembered()
	for _, p := range list {
		if p.result.Task.ID == id {
			return p
		}
	}
	return nil
}

// ended lists what is remembered of tasks that have ended or failed, the latest first, and reports
// whether others are forgotten.
func (s *Server) ended(now time.Time) (list []Where, forgot bool) {
	all, forgot := s.sink.remembered()
	for _, p := range all {
		w := Where{State: "ended", Past: p.past(false)}
		if !p.due.IsZero() {
			w.State, w.Blocking = "waiting", (&task.Blocking{By: task.ByRetry, Tasks: 1, Until: p.due}).Told(now)
		}
		list = append(list, w)
	}
	return list, forgot
}

// endedLast lists the tasks that ended last, or those that failed, the latest last: those that
// are recorded or, without a record, remembered.
func (s *Server) endedLast(n int, failed bool) *Reply {
	reply := &Reply{}
	if s.cfg.See.Latest != nil {
		for _, p := range s.cfg.See.Latest(n, failed) {
			reply.Wheres = append(reply.Wheres, Where{State: "ended", Past: p})
		}
		return reply
	}
	list, forgot := s.ended(time.Now())
	for _, w := range list {
		if len(reply.Wheres) < n && w.State == "ended" && (w.Outcome.Failed() || !failed) {
			reply.Wheres = append(reply.Wheres, w)
		}
	}
	slices.Reverse(reply.Wheres)
	if forgot {
		reply.Hint = fmt.Sprintf("no more is known than of the last %d that failed and the last %d others: --state DIR keeps all", mostPast, mostPast)
	}
	return reply
}

// recall adds what is known of those tasks that have ended: what is remembered and, if
// all, what is recorded.
func (s *Server) recall(list []Where, all bool) {
	var ids []uint64
	for i := range list {
		if w := &list[i]; w.State == "ended" || w.State == "held" {
			ids = append(ids, w.Task)
		}
	}
	known := s.known(ids, all)
	for i := range list {
		w := &list[i]
		if p, ok := known[w.Task]; ok {
			w.Past = p
		} else if all && s.cfg.See.Ended == nil && w.State == "ended" && w.Outcome == 0 {
			w.Hint = "--state DIR keeps more"
		}
	}
}

// known returns what is known of tasks that have ended: what is remembered and, if all, what is
// recorded of others. The caller closes the outputs.
func (s *Server) known(ids []uint64, all bool) map[uint64]task.Past {
	known := map[uint64]task.Past{}
	list, _ := s.sink.remembered()
	for _, p := range list {
		if id := p.result.Task.ID; p.due.IsZero() && slices.Contains(ids, id) {
			known[id] = p.past(s.cfg.See.Live != nil)
		}
	}
	if all && len(known) < len(ids) && s.cfg.See.Ended != nil {
		missing := slices.DeleteFunc(slices.Clone(ids), func(id uint64) bool { return known[id].Task != 0 })
		maps.Copy(known, s.cfg.See.Ended(missing...))
	}
	return known
}

// tail is the end of an output as a task.Live.
type tail struct{ *bytes.Reader }

// Close does nothing.
func (tail) Close() error { return nil }

// past returns p as what is kept of a task.
func (p *past) past(keeps bool) task.Past {
	t := p.result.Task
	out := pastOf(t, p.result.Facts(), t.ArgvIn(&p.result))
	out.Cut, out.Kept = p.cut, keeps
	for i, o := range p.outs {
		if len(o) > 0 {
			out.Outputs[i], out.Kept = tail{bytes.NewReader(o)}, true
		}
	}
	return out
}
