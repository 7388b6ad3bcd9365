package engine

import (
	"fmt"
	"strings"
	"time"
)

// arrives notes that the host answers. serves says that its worker does.
func (h *host) arrives(serves bool) {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	h.there, h.served = true, h.served || serves
}

// leaves notes that the host does not answer any more, or not yet.
func (h *host) leaves() {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	h.there, h.lost = false, h.served
}

// deserted returns an error that names the hosts once none of them has been there for
// --connect-timeout. This process may have stood still until grace.
func (p *sshHosts) deserted(now, grace time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for _, h := range p.hosts {
		if h.there {
			p.since = now
			return nil
		}
		names = append(names, h.String())
	}
	if p.reach == 0 || now.Sub(latest(p.since, grace)) < p.reach {
		return nil
	}
	return fmt.Errorf("no host was reached for %v: %s: --connect-timeout DUR waits longer", p.reach, strings.Join(names, ", "))
}

// missing returns a line each for the hosts that no worker has been on, and for those
// that have lost one.
func (p *sshHosts) missing() (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var never, lost []string
	for _, h := range p.hosts {
		switch {
		case !h.served:
			never = append(never, h.String())
		case h.lost && h.there:
			lost = append(lost, h.String()+" (it came back)")
		case h.lost:
			lost = append(lost, h.String())
		}
	}
	if len(never) > 0 {
		lines = append(lines, "hosts that were never reached: "+strings.Join(never, ", "))
	}
	if len(lost) > 0 {
		lines = append(lines, "hosts that were lost: "+strings.Join(lost, ", "))
	}
	return lines
}
