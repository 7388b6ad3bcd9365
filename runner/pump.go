package runner

import (
	"time"

	"crew/runner/task"
)

// pump hands batches of events to the sinks, one after another, and folds them
// into the totals. It is the only goroutine that calls sinks.
type pump struct {
	sinks  []Sink
	tick   time.Duration
	keep   bool              // outputs of failed attempts are closed with the task's result
	in     chan []task.Event // closed by the loop at the end
	spare  chan []task.Event // used batches on their way back
	errs   chan error        // the first error of each sink
	done   chan struct{}     // closed when every sink is closed
	stats  task.Stats        // to be read once done is closed
	broken []bool            // sinks that had an error: they get nothing more but Close
}

func startPump(sinks []Sink, tick time.Duration, keep bool) *pump {
	p := &pump{
		sinks: sinks, tick: tick, keep: keep, broken: make([]bool, len(sinks)),
		in: make(chan []task.Event), spare: make(chan []task.Event, 2),
		errs: make(chan error, len(sinks)), done: make(chan struct{}),
	}
	go p.run()
	return p
}

func (p *pump) run() {
	defer close(p.done)
	var ticks <-chan time.Time
	if p.tick > 0 {
		t := time.NewTicker(p.tick)
		defer t.Stop()
		ticks = t.C
	}
	for {
		select {
		case batch, ok := <-p.in:
			if !ok {
				p.close()
				return
			}
			p.consume(batch)
			clear(batch)
			select {
			case p.spare <- batch[:0]:
			default:
			}
		case <-ticks:
			p.consume(nil)
		}
	}
}

// consume lets every sink see the batch, then closes what it carried.
func (p *pump) consume(batch []task.Event) {
	for _, e := range batch {
		p.stats.Apply(e)
	}
	for i, s := range p.sinks {
		if p.broken[i] {
			continue
		}
		if err := s.Consume(batch); err != nil {
			p.broken[i] = true
			p.errs <- err
		}
	}
	for _, e := range batch {
		if e.Result != nil && !(p.keep && e.Kind == task.Retried) {
			e.Result.Close()
		}
	}
}

func (p *pump) close() {
	for i, s := range p.sinks {
		if err := s.Close(p.stats); err != nil && !p.broken[i] {
			p.errs <- err
		}
	}
}
