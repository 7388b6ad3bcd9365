package control

import (
	"math"
	"sync"

	"crew/runner/decide/task"
)

// mostEvents is how many events a watcher may be behind.
const maxEvents = 4096

// Sink is a runner.Sink that tells clients what happens. It keeps what they have not
// taken yet, so it never waits for them.
type Sink struct {
	mu        sync.Mutex
	past      []*endedAttempt // the latest attempts that ended, the latest first
	size      int             // of their tasks
	forgot    bool            // there were more
	listeners map[*listener]struct{}
	finished  int64       // events of that kind so far
	final     *task.Stats // the totals, once no more events come
}

// listener collects events for a connection.
type listener struct {
	wake chan struct{} // has room for one

	// under Sink.mu

	all    bool            // it asks about all events
	tasks  map[uint64]bool // or else about those of these tasks, which have not ended
	events []heldEvent
	lost   int64 // events that did not fit after them
}

// heard is an event. If it is that of an attempt that ended, and the listener asks about
// its task, the outputs, stdout and stderr, are held for it.
type heldEvent struct {
	task.Event
	outs [2]task.Live
}

// Consume passes on a batch of events, and remembers the latest tasks that have ended.
// It never waits and never fails.
func (k *Sink) Consume(batch []task.Event) error {
	if len(batch) == 0 {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range batch {
		switch e := &batch[i]; e.Kind {
		case task.Finished:
			k.finished++
			k.remember(e)
		case task.Retried:
			k.remember(e)
		}
	}
	for l := range k.listeners {
		for i := range batch {
			l.add(&batch[i])
		}
		if len(l.events) > 0 {
			select {
			case l.wake <- struct{}{}:
			default:
			}
		}
	}
	return nil
}

// hear keeps an event if the listener asks about it. The outputs of an attempt that ended
// are still open now. The caller must hold mu.
func (l *listener) add(e *task.Event) {
	about := e.Task != nil && l.tasks[e.Task.ID]
	switch all := l.all && e.Kind != task.Released; {
	case all && (len(l.events) == maxEvents || l.lost > 0):
		l.lost++
	case all, about && e.Kind == task.Started:
		l.events = append(l.events, heldEvent{Event: *e})
	case about && e.Result != nil:
		l.events = append(l.events, heldEvent{*e, [2]task.Live{hold(e.Result.Stdout), hold(e.Result.Stderr)}})
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

// Close keeps the totals for the watchers. No more events come.
func (k *Sink) Close(final task.Stats) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.final = &final
	return nil
}

// listen adds a listener.
func (k *Sink) addListener(l *listener) *listener {
	l.wake = make(chan struct{}, 1)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listeners[l] = struct{}{}
	return l
}

// ends returns of how many ends of tasks the sink has heard, and once it is closed the most.
func (k *Sink) finishedCount() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.final != nil {
		return math.MaxInt64
	}
	return k.finished
}

// take returns the events that l has collected, and how many were lost after them.
func (k *Sink) takeEvents(l *listener) (events []heldEvent, lost int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	events, lost = l.events, l.lost
	l.events, l.lost = nil, 0
	return events, lost
}

// leave ends l and lets go of the outputs that it was not asked for.
func (k *Sink) removeListener(l *listener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.listeners, l)
	for i := range l.events {
		closeAll(l.events[i].outs)
	}
}
