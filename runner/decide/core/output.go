package core

import (
	"time"

	"crew/runner/decide/task"
	"crew/sched"
)

const (
	// While outboxFull events wait for the sinks, nothing is read and nothing starts, so a stalled
	// reader of the output slows the run down.
	outboxFull = 4096
	// The pump is called once there are batch events, or lag after it last took some.
	batch = 256
	lag   = 10 * time.Millisecond
)

// output holds the events for the sinks, their totals, and the order of results.
type output struct {
	clock    *clock
	stats    task.Stats
	events   []task.Event
	handedAt time.Time      // when the pump last took events
	order    *sched.Reorder // of results; nil without Order.Keep
}

// emit counts an event and queues it for the sinks.
func (o *output) emit(e task.Event) {
	e.At = o.clock.at
	o.stats.Apply(&e)
	o.events = append(o.events, e)
}

func (o *output) notice(text string) { o.emit(task.Event{Kind: task.Notice, Text: text}) }

// release emits the results that may be shown now that task id is finished. One event covers them
// all, since there may be as many as the window is long.
func (o *output) release(id uint64) {
	first, next := id, id+1
	if o.order != nil {
		first = o.order.Base()
		o.order.Put(id)
		next = o.order.Base()
	}
	if next > first {
		o.emit(task.Event{Kind: task.Released, ID: first, Last: next - 1})
	}
}

// full reports whether so many events wait that nothing more is read or starts.
func (o *output) full() bool { return len(o.events) >= outboxFull }

// due reports whether the pump must take the events now, because they are many or have waited long
// enough. If not, at is when it must; zero for never.
func (o *output) due() (now bool, at time.Time) {
	switch at = o.handedAt.Add(lag); {
	case len(o.events) == 0:
		return false, time.Time{}
	case len(o.events) >= batch || !at.After(o.clock.now):
		return true, time.Time{}
	}
	return false, at
}

// Stats returns the totals.
func (c *Core) Stats() task.Stats { return c.output.stats }

// Take returns the waiting events, and uses the empty slice for the next ones. If last, no more
// will come.
func (c *Core) Take(empty []task.Event) (events []task.Event, last bool) {
	o := &c.output
	events, o.events, o.handedAt = o.events, empty, o.clock.now
	return events, c.seal()
}
