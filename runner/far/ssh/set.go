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
	p.change(func() { p.c.Hosts = hosts })
	return nil
}

// Leaving reports whether the worker with a mark is to end: it is to take nothing more, and
// what it runs is to finish.
func (p *Hosts) Leaving(mark string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.hosts, func(h *host) bool { return h.Mark == mark && h.leaving })
}

// change changes the hosts that are to have a worker, or those that have one, and tells what
// follows from it.
func (p *Hosts) change(do func()) {
	p.mu.Lock()
	do()
	said := p.settle()
	p.mu.Unlock()
	for _, text := range said { // which may wait for a reader
		p.c.Notice(text)
	}
}

// settle has hosts leave that are not to have a worker, and those join that have none. It returns
// what to say of that. The caller holds mu.
func (p *Hosts) settle() (said []string) {
	for _, h := range p.hosts {
		if !h.leaving && !slices.ContainsFunc(p.c.Hosts, func(o Host) bool { return o.is(h) && slices.Equal(o.Args, h.Args) }) {
			if h.leaving = true; h.at != working {
				h.stop()
			}
			said = append(said, h.name()+": leaves")
		}
	}
	for _, named := range p.c.Hosts {
		if !slices.ContainsFunc(p.hosts, named.is) {
			said = append(said, p.add(named).name()+": joins")
		}
	}
	return said
}

// is reports whether it is the machine of h.
func (o Host) is(h *host) bool { return o.Target == h.Target && o.Port == h.Port }

// add starts to keep a worker on a host. The caller holds mu.
func (p *Hosts) add(named Host) *host {
	ctx, stop := context.WithCancel(p.ctx)
	h := &host{Host: named, all: p, at: starting, joined: time.Now(), stop: stop}
	p.hosts = append(p.hosts, h)
	p.wg.Go(func() {
		h.keep(ctx)
		stop()
		if p.ctx.Err() == nil {
			p.change(func() { p.hosts = slices.DeleteFunc(p.hosts, func(o *host) bool { return o == h }) })
		}
	})
	return h
}
