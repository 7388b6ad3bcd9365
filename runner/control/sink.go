package control

import (
	"slices"
	"sync"
	"sync/atomic"

	"crew/runner/task"
)

// mostEvents is how many events a watcher may be behind.
const mostEvents = 4096

// Sink is a runner.Sink that tells clients what happens. It keeps what they have not
// taken yet, so it never waits for them.
type Sink struct {
	asked atomic.Int64 // watchers and followed tasks; usually 0

	mu        sync.Mutex
	failed    pasts // tasks whose latest attempt has failed
	others    pasts // tasks that have ended otherwise
	watchers  []*watcher
	followers map[uint64][]*follower // by task
	final     *task.Stats            // the totals, once no more events come
}

// watcher collects events for a connection.
type watcher struct {
	wake   chan struct{} // has room for one
	events []task.Event  // under Sink.mu
	lost   int64         // events that did not fit after them; under Sink.mu
}

// follower collects what becomes of tasks, for a connection.
type follower struct {
	wake  chan struct{}      // has room for one
	tasks map[uint64]*course // the tasks that have not ended; of the connection
	ended []task.Facts       // of the connection
	news  []news             // under Sink.mu
}

// news is that an attempt started or ended.
type news struct {
	id      uint64
	attempt int
	started bool
	outs    [2]task.Live // of an attempt that ended: stdout and stderr, or nil
	end     *task.Facts  // if the task is finished
}

func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// Consume passes on a batch of events, and remembers the latest tasks that have ended.
// It never waits and never fails.
func (k *Sink) Consume(batch []task.Event) error {
	if len(batch) == 0 {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.noteAll(batch)
	if k.asked.Load() == 0 {
		return nil
	}
	for _, w := range k.watchers {
		for i := range batch {
			switch {
			case batch[i].Kind == task.Released:
			case len(w.events) < mostEvents && w.lost == 0:
				w.events = append(w.events, batch[i])
			default:
				w.lost++
			}
		}
		ring(w.wake)
	}
	if len(k.followers) > 0 {
		for i := range batch {
			k.tell(&batch[i])
		}
	}
	return nil
}

// tell tells the followers of a task what happened to it. Its outputs are still open
// now, and are held for them.
func (k *Sink) tell(e *task.Event) {
	if e.Task == nil {
		return
	}
	id := e.Task.ID
	for _, f := range k.followers[id] {
		n := news{id: id, attempt: e.Attempt}
		switch e.Kind {
		case task.Started:
			n.started = true
		case task.Retried, task.Finished:
			n.attempt = e.Result.Attempt
			n.outs = [2]task.Live{hold(e.Result.Stdout), hold(e.Result.Stderr)}
			if e.Kind == task.Finished {
				end := e.Result.Facts()
				end.Task = id
				n.end = &end
			}
		default:
			continue
		}
		f.news = append(f.news, n)
		ring(f.wake)
	}
	if e.Kind == task.Finished {
		k.forget(id)
	}
}

// hold keeps an output readable after its result is closed. It returns nil for one
// that cannot be kept, and for none.
func hold(o task.Output) task.Live {
	if h, ok := o.(interface{ Hold() task.Live }); ok {
		return h.Hold()
	}
	return nil
}

// forget drops the followers of a task.
func (k *Sink) forget(id uint64) {
	k.asked.Add(-int64(len(k.followers[id])))
	delete(k.followers, id)
}

// Close keeps the totals for the watchers. No more events come.
func (k *Sink) Close(final task.Stats) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.final = &final
	return nil
}

// watch returns a new watcher.
func (k *Sink) watch() *watcher {
	w := &watcher{wake: make(chan struct{}, 1)}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watchers = append(k.watchers, w)
	k.asked.Add(1)
	return w
}

func (k *Sink) unwatch(w *watcher) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.watchers = slices.DeleteFunc(k.watchers, func(o *watcher) bool { return o == w })
	k.asked.Add(-1)
}

// take returns the events that w has collected in exchange for an empty slice, and
// how many were lost after them.
func (k *Sink) take(w *watcher, empty []task.Event) (events []task.Event, lost int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	events, lost = w.events, w.lost
	w.events, w.lost = empty, 0
	return events, lost
}

// follow returns a follower of tasks that have not ended.
func (k *Sink) follow(ids ...uint64) *follower {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.follows(ids...)
}

// follows is follow for a caller that holds mu.
func (k *Sink) follows(ids ...uint64) *follower {
	f := &follower{wake: make(chan struct{}, 1), tasks: map[uint64]*course{}}
	if k.followers == nil {
		k.followers = map[uint64][]*follower{}
	}
	for _, id := range ids {
		f.tasks[id] = &course{id: id}
		k.followers[id] = append(k.followers[id], f)
	}
	k.asked.Add(int64(len(ids)))
	return f
}

// unfollow ends f, which may be nil, and lets go of all outputs.
func (k *Sink) unfollow(f *follower) {
	if f == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, c := range f.tasks {
		c.letGo()
		if had := k.followers[id]; slices.Contains(had, f) {
			k.asked.Add(-1)
			if k.followers[id] = slices.DeleteFunc(had, func(o *follower) bool { return o == f }); len(k.followers[id]) == 0 {
				delete(k.followers, id)
			}
		}
	}
	for i := range f.news {
		closeAll(f.news[i].outs)
	}
	f.news = nil
}

// heard returns the news that f has collected.
func (k *Sink) heard(f *follower) (list []news) {
	k.mu.Lock()
	defer k.mu.Unlock()
	list, f.news = f.news, nil
	return list
}
