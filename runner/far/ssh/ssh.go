// Package ssh keeps a worker on each host of a run. The worker is crew-engine with the caller's
// arguments. The package copies crew-engine to hosts that lack it, connects the standard input and
// output of each worker to the caller's server, and restarts workers that fail.
//
// Each host has a goroutine, and a second one while its worker is connected. All of them end before
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

// Config says where workers run and how they are connected.
type Config struct {
	Hosts   []Host
	Connect func() (net.Conn, error) // to the server; safe for concurrent use
	Notice  func(string)             // shows the user a line about a host; safe for concurrent use
	Reach   time.Duration            // how long CheckReachable waits for a host; 0 means for ever
	SSH     string                   // the program to run; "" for the ssh in PATH
}

// Host names a machine and describes the worker to run there.
type Host struct {
	Target string   // destination for ssh; "" for this machine
	Port   string   // "" lets ssh choose
	Args   []string // arguments of crew-engine
	Mark   string   // identifies its worker to Leaving
}

// maxCopies limits how many copies of crew-engine are in transit at once.
const maxCopies = 8

// Hosts keeps a worker on each of several hosts. It is safe for concurrent use.
type Hosts struct {
	programs programs
	copies   chan struct{} // semaphore: one element per copy in transit
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu    sync.Mutex
	c     Config        // c.Hosts are the hosts that should have a worker; the rest is constant, and may be read without mu
	hosts []*host       // the hosts of c, and hosts that are leaving
	since time.Duration // when CheckReachable last found a host connected; at first 0
}

// Start starts a worker on each host. If a host cannot be reached or loses its worker, it is tried
// again until Close. A worker that exits with status 0 is not restarted. Start returns an error if a host
// needs ssh and ssh is not installed.
func Start(c Config) (*Hosts, error) {
	c.SSH = cmp.Or(c.SSH, "ssh")
	needed := slices.ContainsFunc(c.Hosts, func(h Host) bool { return h.Target != "" })
	if _, err := exec.LookPath(c.SSH); needed && err != nil {
		return nil, errors.New("--ssh needs the program ssh, which is not in PATH: install openssh-client")
	}
	p := &Hosts{c: c, copies: make(chan struct{}, maxCopies)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reconcileLocked() // its notices are dropped: the user named these hosts
	return p, nil
}

// Close ends the workers and returns once their processes, or the ssh processes, have ended.
func (p *Hosts) Close() {
	p.cancel()
	p.wg.Wait()
}

// hopelessLocked returns an error if no host can ever be reached, and nil if some host may still be.
// The caller must hold mu.
func (p *Hosts) hopelessLocked() error {
	why := ""
	for _, h := range p.hosts {
		if h.fatal == "" {
			return nil
		}
		why += fmt.Sprintf("; %s: %s", h.name(), h.fatal)
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("no host can be reached%s: `ssh HOST true` must work without a prompt", strings.Replace(why, ";", ":", 1))
}

// CheckReachable returns an error that names the hosts if none has been connected for Reach, or if none
// can ever be. A host counts as connected from its first answer until its worker has ended. now is how
// long the calling process has run since Start, without its suspensions.
func (p *Hosts) CheckReachable(now time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.hopelessLocked(); err != nil {
		return err
	}
	var names []string
	for _, h := range p.hosts {
		if h.stage != starting {
			p.since = now
			return nil
		}
		names = append(names, h.name())
	}
	if p.c.Reach == 0 || now-p.since < p.c.Reach {
		return nil
	}
	return fmt.Errorf("no host was reached for %v: %s: --connect-timeout DUR waits longer", p.c.Reach, strings.Join(names, ", "))
}

// Missing returns one line naming the hosts that never had a worker, and one naming the hosts that lost
// theirs. It leaves out hosts that are leaving, hosts that had no time to answer yet, and hosts that
// crew-engine is being copied to. It returns nothing if CheckReachable reports that no host can ever be
// reached.
func (p *Hosts) Missing() (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hopelessLocked() != nil {
		return nil
	}
	var never, lost []string
	for _, h := range p.hosts {
		switch {
		case h.leaving:
		case h.lost:
			lost = append(lost, h.name())
		case !h.served && (h.failed || h.stage == starting && time.Since(h.joined) >= shortTime):
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
