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

// pasts are the latest tasks of a kind, the oldest first.
type pasts struct {
	list []*past
	size int
}

// note remembers how an attempt ended. The caller must hold mu.
func (k *Sink) note(e *task.Event) {
	r := e.Result
	if r.Known() || r.Unbegun {
		return
	}
	if r.Attempt > 1 || len(r.Before) > 0 {
		k.failed.remove(e.Task.ID)
	}
	if r.Outcome.Failed() {
		k.failed.add(e)
	} else {
		k.others.add(e)
	}
}

// add adds a task in place of the oldest if there are too many.
func (l *pasts) add(e *task.Event) {
	p := &past{size: e.Task.Size(), result: *e.Result}
	for len(l.list) == mostPast || len(l.list) > 0 && l.size+p.size > pastBytes {
		l.size -= l.list[0].size
		l.list = slices.Delete(l.list, 0, 1)
	}
	p.outs, p.cut = tails(e.Result)
	p.result.Task = e.Task
	p.result.Stdout, p.result.Stderr, p.result.Before, p.result.Tail = nil, nil, nil, nil
	if e.Kind == task.Retried {
		p.due = e.At.Add(e.Wait)
	}
	l.list = append(l.list, p)
	l.size += p.size
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

// full reports whether tasks have been forgotten, or will be with the next one.
func (k *Sink) full() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.failed.list) == mostPast || len(k.others.list) == mostPast || max(k.failed.size, k.others.size) > pastBytes/2
}

func (l *pasts) remove(id uint64) {
	l.list = slices.DeleteFunc(l.list, func(p *past) bool {
		if p.result.Task.ID == id {
			l.size -= p.size
		}
		return p.result.Task.ID == id
	})
}

// remembered returns what is remembered of a task or, for 0, of all, the latest first.
func (k *Sink) remembered(id uint64) (list []past) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range [...]*pasts{&k.failed, &k.others} {
		for _, p := range l.list {
			if id == 0 || p.result.Task.ID == id {
				list = append(list, *p)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b past) int { return b.result.End.Compare(a.result.End) })
	return list
}

// find returns what is remembered of a task that has ended or, if again, of one that has failed and is
// to be tried again; nil if that is nothing.
func (k *Sink) find(id uint64, again bool) *past {
	for _, p := range k.remembered(id) {
		if p.due.IsZero() != again {
			return &p
		}
	}
	return nil
}

// ended lists what is remembered of tasks that have ended or failed, the latest first.
func (s *Server) ended(now time.Time) (list []Where) {
	for _, p := range s.sink.remembered(0) {
		w := Where{State: "ended", Past: p.past(false)}
		if !p.due.IsZero() {
			w.State, w.Blocking = "waiting", (&task.Blocking{By: task.ByRetry, Tasks: 1, Until: p.due}).Told(now)
		}
		list = append(list, w)
	}
	return list
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
	for _, w := range s.ended(time.Now()) {
		if len(reply.Wheres) < n && w.State == "ended" && (w.Outcome.Failed() || !failed) {
			reply.Wheres = append(reply.Wheres, w)
		}
	}
	slices.Reverse(reply.Wheres)
	if s.sink.full() {
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
// recorded of others.
func (s *Server) known(ids []uint64, all bool) map[uint64]task.Past {
	known := map[uint64]task.Past{}
	var missing []uint64
	for _, id := range ids {
		if p := s.sink.find(id, false); p != nil {
			known[id] = p.past(false)
		} else {
			missing = append(missing, id)
		}
	}
	if all && len(missing) > 0 && s.cfg.See.Ended != nil {
		maps.Copy(known, s.cfg.See.Ended(missing...))
	}
	return known
}

// past returns what is kept of a task that has ended: what is remembered if that is
// all of its output, or else what is recorded, if anything.
func (s *Server) past(id uint64) (p task.Past, ok bool) {
	if was := s.sink.find(id, false); was != nil {
		ok, p = true, was.past(s.cfg.See.Live != nil)
	}
	if s.cfg.See.Ended != nil && (!ok || p.Cut != [2]int64{}) {
		if recorded, found := s.cfg.See.Ended(id)[id]; found && (recorded.Kept || !ok) {
			return recorded, true
		}
	}
	return p, ok
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
