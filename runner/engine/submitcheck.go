package engine

import (
	"context"
	"errors"
	"slices"
	"time"
)

// askMost limits the attempts that one question is about.
const askMost = 1000

// check asks workers about attempts that they were given more than a TTL ago. It is a
// safety net: what a worker twice does not know is lost, as after a power cut.
func (x *submitter) check() {
	if !x.s.nc.IsConnected() {
		return
	}
	now, asked := time.Now(), map[*worker][]*flight{}
	x.flights.mu.Lock()
	for _, f := range x.flights.m {
		if w := f.worker; !f.stored.IsZero() && now.Sub(latest(f.stored, f.checked)) > w.ttl && len(asked[w]) < askMost {
			f.checked = now
			asked[w] = append(asked[w], f)
		}
	}
	x.flights.mu.Unlock()
	for w, flights := range asked {
		x.ask(w, flights)
	}
}

func (x *submitter) ask(w *worker, flights []*flight) {
	ctx, cancel := context.WithTimeout(x.ctx, catchUpWait)
	defer cancel()
	o := Order{Op: opHolds}
	for _, f := range flights {
		o.IDs = append(o.IDs, f.id)
	}
	a, err := x.s.ask(ctx, w.orders, o)
	if err != nil || a.Err != "" {
		return // its lease tells whether it is there
	}
	unknown := slices.DeleteFunc(flights, func(f *flight) bool { return slices.Contains(a.IDs, f.id) })
	if len(unknown) == 0 || x.catchUp(ctx) != nil {
		return
	}
	for _, f := range unknown { // those whose results have come have ended
		if f.unknown++; f.unknown >= 2 {
			f.finish(end{err: errors.New("its worker does not know it")})
		}
	}
}
