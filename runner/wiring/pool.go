package wiring

import (
	"slices"

	"crew/runner/cli"
	"crew/runner/core"
	"crew/runner/jobserver"
	"crew/runner/machine"
)

// pool is how many workers a run has on this machine, and what is read ahead for them.
type pool struct {
	jobs int             // number of workers; 0 for a pause, which only file can ask for
	file string          // that jobs was read from; "" for none
	join *jobserver.Auth // make's jobserver, which the run joins; nil for none

	processes int64 // how many processes and threads crew and its tasks may come to

	queue core.Queue // how much is read ahead, and what options say
}

// With keys, limits by name, priorities or an order by cost, keyedBuffer tasks are read ahead,
// and workerBuffer with persistent workers, so that the reader is not woken for every few. In
// all these cases,
// what is read ahead takes no more than mostBufferBytes.
const (
	keyedBuffer     = 4096
	workerBuffer    = 512
	mostBufferBytes = 16 << 20
)

// poolOf returns the pool that options ask for, under a make with these MAKEFLAGS.
func poolOf(o *cli.Options, makeflags string) (p pool, err error) {
	p.processes = machine.New("").Processes()
	if written := o.Pool.Jobs; written != "" {
		if p.jobs, p.file, err = readJobs(written, p.processes); err != nil {
			return p, o.Bad("jobs", err)
		}
	}
	switch {
	case o.Do == cli.DoAttach:
		p.jobs = attachJobs
	case o.Pool.TTY:
		p.jobs = 1
	}
	p.findJobserver(o, makeflags)
	if p.jobs == 0 && p.file == "" {
		if p.jobs = o.Sched.Topics.Workers(); p.jobs == 0 {
			p.jobs = hereProcessors()
		}
	}
	p.readAhead(o)
	return p, nil
}

// findJobserver finds make's jobserver, which gives the number of workers unless
// options do.
func (p *pool) findJobserver(o *cli.Options, makeflags string) {
	if makeflags == "" || o.Jobserver.Mode == "no" || o.Elsewhere() || o.Do == cli.DoAttach {
		return
	}
	if auth, found := jobserver.Parse(makeflags); found {
		p.join = &auth
		if o.Workers() == "" && p.jobs == 0 {
			p.jobs = min(auth.Jobs, mostJobs)
		}
	}
}

// readAhead says how much is read ahead.
func (p *pool) readAhead(o *cli.Options) {
	q := &p.queue
	*q = o.Queue
	switch {
	case o.Do == cli.DoAttach:
		q.Buffer = 2 * attachJobs
	case o.Fed():
		q.Buffer = o.Serve.Feed.MaxQueued
	}
	if q.Buffer > 0 {
		return
	}
	least := 64
	switch {
	case o.Pipe.On: // a block for each worker, or many small ones
		q.Few = max(1, p.jobs)
		q.Bytes = q.Few * int(max(o.Pipe.Block, cli.DefaultBlock))
	case slices.Contains([]string{"keyed", "topic", "fair"}, o.Sched.Policy) || o.Queue.PerKey > 0 || o.Queue.KeyRate.N > 0 ||
		len(o.Queue.Caps) > 0 || o.Terms.Needs != "" || o.Terms.Priority != "" || o.Sched.Order != "":
		// Many tasks of one key, or that need one thing, must not keep others from being read, nor
		// an order hold for a few tasks only.
		least, q.Bytes = keyedBuffer, mostBufferBytes
	case o.Coproc.Words != "":
		least, q.Bytes = workerBuffer, mostBufferBytes // the window can be large, and so can records
	case o.Command.MaxArgs > 1 || o.Command.MaxChars > 0:
		least = 16 // each is many records, which take memory
	}
	q.Buffer = max(least, 2*p.jobs*o.Coproc.Window)
}

// attachJobs is how many results are fetched at once.
const attachJobs = 4
