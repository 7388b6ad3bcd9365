package runner

import (
	"errors"
	"syscall"
	"time"

	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/exec/kernel/stack"
)

// pump passes batches of events to the sinks, in a goroutine of its own.
type pump struct {
	r           *Run
	sinks       []Sink
	tick        time.Duration
	keepRetried bool // core.Retry.Keep
	bell        chan struct{}
	broken      []bool // sinks of which only Close is still called
}

// ring wakes the pump.
func (p *pump) ring() {
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

// take returns all waiting events in exchange for an empty slice, and drops any ring that came
// since the pump woke up. If last, no more events will come, or the run is over.
func (p *pump) take(empty []task.Event) (events []task.Event, last bool) {
	last = true
	p.r.do(func(c *core.Core) {
		select {
		case <-p.bell:
		default:
		}
		events, last = c.Take(empty)
	}, nil)
	return events, last
}

// run takes and consumes events until the last one, and then closes the sinks.
func (p *pump) run() {
	stack.Grow()
	var ticks <-chan time.Time
	if p.tick > 0 {
		t := time.NewTicker(p.tick)
		defer t.Stop()
		ticks = t.C
	}
	var empty []task.Event
	for {
		select {
		case <-p.bell:
			events, last := p.take(empty)
			p.consume(events)
			clear(events)
			empty = events[:0]
			if last {
				p.close()
				return
			}
		case <-ticks:
			p.consume(nil)
		}
	}
}

// consume passes a batch to every sink, and then closes its results.
func (p *pump) consume(batch []task.Event) {
	for i, s := range p.sinks {
		if p.broken[i] {
			continue
		}
		if err := s.Consume(batch); err != nil {
			p.broken[i] = !errors.Is(err, syscall.EPIPE)
			p.r.do(func(c *core.Core) { c.Abort(err) }, nil)
		}
	}
	for i := range batch {
		e := &batch[i]
		if e.Result != nil && !(p.keepRetried && e.Kind == task.Retried && !e.Result.Unbegun) {
			e.Result.Close()
		}
		if e.Dropped != nil {
			e.Dropped.Close()
		}
	}
}

// close closes the sinks, and reports that to the core.
func (p *pump) close() {
	p.r.mu.Lock()
	stats := p.r.core.Stats()
	p.r.mu.Unlock()
	for i, s := range p.sinks {
		if err := s.Close(stats); err != nil && !p.broken[i] {
			p.r.do(func(c *core.Core) { c.Abort(err) }, nil)
		}
	}
	p.r.do((*core.Core).Shown, nil)
}
