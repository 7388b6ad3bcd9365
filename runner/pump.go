package runner

import (
	"time"

	"crew/runner/task"
)

// pump hands batches of events to the sinks, one after another. Its goroutine is
// the only one that calls sinks.
type pump struct {
	r      *Run
	sinks  []Sink
	tick   time.Duration
	keep   bool // outputs of failed attempts are closed with the task's result
	bell   chan struct{}
	broken []bool // sinks that had an error: they get nothing more but Close
}

func newPump(r *Run, sinks []Sink, tick time.Duration, keep bool) *pump {
	return &pump{
		r: r, sinks: sinks, tick: tick, keep: keep,
		bell: make(chan struct{}, 1), broken: make([]bool, len(sinks)),
	}
}

// ring says that there is something to take.
func (p *pump) ring() {
	select {
	case p.bell <- struct{}{}:
	default:
	}
}

func (p *pump) run() {
	var ticks <-chan time.Time
	if p.tick > 0 {
		t := time.NewTicker(p.tick)
		defer t.Stop()
		ticks = t.C
	}
	var room []task.Event
	for {
		select {
		case <-p.bell:
			events, last := p.r.take(room)
			p.consume(events)
			clear(events)
			room = events[:0]
			if last {
				p.close()
				return
			}
		case <-ticks:
			p.consume(nil)
		}
	}
}

// consume lets every sink see the batch, then closes what it carried.
func (p *pump) consume(batch []task.Event) {
	for i, s := range p.sinks {
		if p.broken[i] {
			continue
		}
		if err := s.Consume(batch); err != nil {
			p.broken[i] = true
			p.r.do(func(c *core) { c.abort(err) }, nil)
		}
	}
	for _, e := range batch {
		if e.Result != nil && !(p.keep && e.Kind == task.Retried) {
			e.Result.Close()
		}
	}
}

func (p *pump) close() {
	stats := p.r.stats()
	for i, s := range p.sinks {
		if err := s.Close(stats); err != nil && !p.broken[i] {
			p.r.do(func(c *core) { c.late(err) }, nil)
		}
	}
	p.r.do(func(*core) { p.r.shown = true }, nil)
}
