package ssh

import (
	"context"
	"slices"
	"time"
)

// Set changes which hosts have a worker. One that is new gets a worker. One that is not
// named any more leaves: its worker, which Leaving tells of, is left alone until it ends,
// and no other is started. One with other arguments leaves, and then joins with them, as
// does one that comes back while it leaves. Set returns the error of Validate, and then has
// changed nothing. It must not be called once Close was.
func (p *Hosts) Set(hosts []Host) error {
	c := p.c
	c.Hosts = hosts
	if err := c.Validate(); err != nil {
		return err
	}
	var say []func()
	p.mu.Lock()
	p.named = hosts
	for _, h := range p.hosts {
		if i := h.wanted(); !h.leaving && (i < 0 || !slices.Equal(hosts[i].Args, h.Args)) {
			h.leave()
			say = append(say, func() { h.say("leaves") })
		}
	}
	p.hosts = slices.DeleteFunc(p.hosts, func(h *host) bool { return h.leaving && h.over })
	for _, named := range hosts {
		if !slices.ContainsFunc(p.hosts, named.is) {
			h := p.add(named)
			say = append(say, func() { h.say("joins") })
		}
	}
	p.mu.Unlock()
	for _, say := range say { // which may wait for a reader
		say()
	}
	return nil
}

// Leaving reports whether the worker with a mark is to end: it is to take nothing more, and
// what it runs is to finish.
func (p *Hosts) Leaving(mark string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.hosts, func(h *host) bool { return h.Mark == mark && h.leaving })
}

// add starts to keep a worker on a host. The caller holds mu.
func (p *Hosts) add(named Host) *host {
	h := &host{Host: named, all: p, state: state{joined: time.Now()}}
	p.hosts = append(p.hosts, h)
	p.wg.Go(func() { h.keep(p.ctx) })
	return h
}

// is reports whether it is the machine of h.
func (o Host) is(h *host) bool { return o.Target == h.Target && o.Port == h.Port }

// wanted returns the place of a host among those that are to have a worker, or -1. The
// caller holds all.mu.
func (h *host) wanted() int {
	return slices.IndexFunc(h.all.named, func(o Host) bool { return o.is(h) })
}

// leave has the host leave. The caller holds all.mu.
func (h *host) leave() {
	h.leaving = true
	if !h.serves && h.stop != nil {
		h.stop()
	}
}

// enter takes what ends keeping a worker on the host, unless that is leaving.
func (h *host) enter(stop context.CancelFunc) bool {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	h.stop = stop
	return !h.leaving
}

// returns reports whether a host that has left is to have a worker again.
func (h *host) returns() bool {
	p := h.all
	p.mu.Lock()
	i := h.wanted()
	switch {
	case !h.leaving:
		h.over, i = true, -1
	case i < 0:
		p.hosts = slices.DeleteFunc(p.hosts, func(o *host) bool { return o == h })
	default:
		h.Host, h.down, h.state = p.named[i], false, state{joined: time.Now()}
	}
	p.mu.Unlock()
	if i >= 0 {
		h.say("joins")
	}
	return i >= 0
}
