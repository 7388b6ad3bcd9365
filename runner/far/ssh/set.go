package ssh

import (
	"context"
	"slices"
	"time"
)

// Set changes which hosts have a worker. A new host gets a worker. A host that is no longer named
// leaves: Leaving reports its worker, which is left alone until it ends and is not restarted. A host
// whose Args changed leaves and then joins again with the new ones, and so does a host that is named
// again while it is leaving. Set must not be called after Close.
func (p *Hosts) Set(hosts []Host) {
	p.update(func() { p.c.Hosts = hosts })
}

// Leaving reports whether the worker with the given mark should take no more tasks and end once its
// running tasks have finished.
func (p *Hosts) Leaving(mark string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.hosts, func(h *host) bool { return h.Mark == mark && h.leaving })
}

// update calls change, which changes the hosts that should have a worker or those that have one, with
// mu held. Then it reconciles the two and shows the resulting notices.
func (p *Hosts) update(change func()) {
	p.mu.Lock()
	change()
	notices := p.reconcileLocked()
	p.mu.Unlock()
	for _, text := range notices { // without mu: Notice may block
		p.c.Notice(text)
	}
}

// reconcileLocked makes hosts leave that should have no worker, and makes hosts join that have none
// yet. It returns notices about these changes. The caller must hold mu.
func (p *Hosts) reconcileLocked() (notices []string) {
	for _, h := range p.hosts {
		if !h.leaving && !slices.ContainsFunc(p.c.Hosts, func(o Host) bool { return o.sameMachine(h) && slices.Equal(o.Args, h.Args) }) {
			if h.leaving = true; h.stage != working {
				h.stop()
			}
			notices = append(notices, h.name()+": leaves")
		}
	}
	for _, named := range p.c.Hosts {
		if !slices.ContainsFunc(p.hosts, named.sameMachine) {
			notices = append(notices, p.addLocked(named).name()+": joins")
		}
	}
	return notices
}

// sameMachine reports whether o and h are the same machine.
func (o Host) sameMachine(h *host) bool { return o.Target == h.Target && o.Port == h.Port }

// addLocked starts the goroutine that keeps a worker on a host. The caller must hold mu.
func (p *Hosts) addLocked(named Host) *host {
	ctx, stop := context.WithCancel(p.ctx)
	h := &host{Host: named, all: p, stage: starting, joined: time.Now(), stop: stop}
	p.hosts = append(p.hosts, h)
	p.wg.Go(func() {
		h.run(ctx)
		stop()
		if p.ctx.Err() == nil {
			p.update(func() { p.hosts = slices.DeleteFunc(p.hosts, func(o *host) bool { return o == h }) })
		}
	})
	return h
}
