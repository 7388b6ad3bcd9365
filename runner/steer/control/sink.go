package control

import (
	"math"
	"sync"

	"crew/runner/decide/task"
)

// maxEvents is how many events are kept for a watcher that is behind.
const maxEvents = 4096

// Sink is a runner.Sink that passes events to clients. It buffers the events that they have not taken yet,
// and never waits for them.
type Sink struct {
	mu        sync.Mutex
	past      []*endedAttempt // recently ended attempts, the latest first
	forgot    bool            // some attempts were dropped from past
	listeners map[*listener]struct{}
	finished  int64       // number of task.Finished events so far
	final     *task.Stats // the totals, once no more events come
}

// listener collects events for a connection.
type listener struct {
	wake chan struct{} // has capacity 1

	// guarded by Sink.mu

	all    bool            // collect all events
	every  bool            // collect the starts and ends of all tasks
	tasks  map[uint64]bool // or only of these tasks
	events []heldEvent
	lost   int64 // number of events that did not fit after these
}

// heldEvent is an event for a listener. If an attempt of one of the listener's tasks ended, outs holds
// stdout and stderr open.
type heldEvent struct {
	task.Event
	outs [2]task.Live
}

// Consume passes a batch of events to the listeners, and remembers the attempts that ended. It never waits
// and never fails.
func (k *Sink) Consume(batch []task.Event) error {
	if len(batch) == 0 {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.remember(batch)
	for i := range batch {
		if batch[i].Kind == task.Finished {
			k.finished++
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

// add keeps an event if the listener wants it. The outputs of an attempt that ended are still open now. The
// caller must hold Sink.mu.
func (l *listener) add(e *task.Event) {
	about := e.Task != nil && (l.every || l.tasks[e.Task.ID])
	switch all := l.all && e.Kind != task.Released; {
	case all && (len(l.events) == maxEvents || l.lost > 0):
		l.lost++
	case all, about && e.Kind == task.Started:
		l.events = append(l.events, heldEvent{Event: *e})
	case about && e.Result != nil:
		l.events = append(l.events, heldEvent{*e, [2]task.Live{hold(e.Result.Stdout), hold(e.Result.Stderr)}})
	}
}

// hold keeps an output readable after its result is closed. It returns nil if o is nil or cannot be held.
func hold(o task.Output) task.Live {
	if h, ok := o.(interface{ Hold() task.Live }); ok {
		return h.Hold()
	}
	return nil
}

// Close keeps the totals for the watchers. No more events follow.
func (k *Sink) Close(final task.Stats) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.final = &final
	return nil
}

// addListener adds l to the listeners and returns it.
func (k *Sink) addListener(l *listener) *listener {
	l.wake, l.tasks = make(chan struct{}, 1), map[uint64]bool{}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.listeners[l] = struct{}{}
	return l
}

// finishedCount returns how many tasks the sink knows to be finished. Once closed, it returns math.MaxInt64.
func (k *Sink) finishedCount() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.final != nil {
		return math.MaxInt64
	}
	return k.finished
}

// takeEvents returns the events that l has collected, and how many were lost after them.
func (k *Sink) takeEvents(l *listener) (events []heldEvent, lost int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	events, lost = l.events, l.lost
	l.events, l.lost = nil, 0
	return events, lost
}

// removeListener removes l and closes the outputs of events that were not taken.
func (k *Sink) removeListener(l *listener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.listeners, l)
	for i := range l.events {
		closeAll(l.events[i].outs)
	}
}
