// Package ssh keeps a worker on each host of a run: crew-engine, with the caller's
// arguments. It copies crew-engine to hosts that lack it, connects the standard input and
// output of each worker to the caller's server, and starts workers again that fail.
//
// Each host has a goroutine, and one more while its worker is connected. They end before
// Close returns.
package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config says where workers run and what they connect to.
type Config struct {
	Hosts   []Host
	Connect func() (net.Conn, error) // to the server; safe for concurrent use
	Notice  func(string)             // tells the user of a host; safe for concurrent use
	Reach   time.Duration            // how long Deserted waits for a host; 0 for ever
	SSH     string                   // the program; "" for the ssh in PATH
}

// Host is a machine and the worker on it.
type Host struct {
	Target string   // as ssh knows it; "" for this machine
	Port   string   // "" for the one that ssh chooses
	Args   []string // of crew-engine
	Mark   string   // by which Leaving knows its worker
}

// Validate returns an error if a host needs ssh and that is not installed.
func (c Config) Validate() error {
	needed := slices.ContainsFunc(c.Hosts, func(h Host) bool { return h.Target != "" })
	if _, err := exec.LookPath(c.ssh()); needed && err != nil {
		return errors.New("--ssh needs the program ssh, which is not in PATH: install openssh-client")
	}
	return nil
}

func (c Config) ssh() string { return cmp.Or(c.SSH, "ssh") }

// mostCopies limits the copies of crew-engine that are on their way at once.
const mostCopies = 8

// Hosts keeps a worker on each of several hosts. It is safe for concurrent use.
type Hosts struct {
	programs programs
	copies   chan struct{} // one for each copy on its way
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu    sync.Mutex
	c     Config    // Hosts are those that are to have a worker
	hosts []*host   // these, and those that are leaving
	since time.Time // when a host was last there, or Start was called
}

// Start starts a worker on each host. A host that cannot be reached, or that loses its
// worker, is tried again until Close. A worker that exits with status 0 has ended for
// good.
func Start(c Config) (*Hosts, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p := &Hosts{c: c, copies: make(chan struct{}, mostCopies), since: time.Now()}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle() // the user knows
	return p, nil
}

// Close ends the workers and returns once their processes, or those of ssh, have ended.
// It must be called once.
func (p *Hosts) Close() {
	p.cancel()
	p.wg.Wait()
}

// hopeless returns an error that says why no host will ever be reached, or nil if one may be. Its caller
// holds mu.
func (p *Hosts) hopeless() error {
	why := ""
	for _, h := range p.hosts {
		if h.never == "" {
			return nil
		}
		why += fmt.Sprintf("; %s: %s", h.name(), h.never)
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("no host can be reached%s: `ssh HOST true` must work without a prompt", strings.Replace(why, ";", ":", 1))
}

// Deserted returns an error that names the hosts if none has been there for Reach, or none will ever
// be. A host is there from its first answer until its worker has ended. The time before
// grace does not count: the calling process may have been suspended until then.
func (p *Hosts) Deserted(now, grace time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.hopeless(); err != nil {
		return err
	}
	var names []string
	for _, h := range p.hosts {
		if h.at != starting {
			p.since = now
			return nil
		}
		names = append(names, h.name())
	}
	if p.c.Reach == 0 || min(now.Sub(p.since), now.Sub(grace)) < p.c.Reach {
		return nil
	}
	return fmt.Errorf("no host was reached for %v: %s: --connect-timeout DUR waits longer", p.c.Reach, strings.Join(names, ", "))
}

// Missing returns a line for the hosts that never had a worker and one for those that
// have lost theirs. There is none if all hosts had one all the time, or if it is hopeless. Those that leave do
// not count, nor do those that have had no time to answer, or that crew-engine is being copied to.
func (p *Hosts) Missing() (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hopeless() != nil {
		return nil
	}
	var never, lost []string
	for _, h := range p.hosts {
		switch {
		case h.leaving:
		case h.lost:
			lost = append(lost, h.name())
		case !h.served && (h.failed || h.at == starting && time.Since(h.joined) >= shortTime):
			never = append(never, h.name())
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
