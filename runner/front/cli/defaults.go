package cli

import (
	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/read/input"
	"slices"
	"strings"
	"time"
)

const defaultQueue = "default"

// newOptions returns Options for an empty command line, without the defaults that finish sets.
func newOptions(c *command) *Options {
	return &Options{ // literals: parsing the defaults would take a tenth of the start
		Do: c.name, command: c,
		Command: Command{Replace: "{}"},
		Coproc:  Coproc{Protocol: task.LineProtocol, Window: 1},
		Sched:   Sched{Policy: "fifo"},
		Failure: Failure{
			Retry:   core.Retry{Delay: time.Second, MaxDelay: time.Minute},
			RetryOn: RetryOn{{To: anyStatus}},
			Limit:   core.Limit{Limit: task.Limit{KillAfter: 5 * time.Second}},
		},
		Output: Output{Mode: "group"},
		Show:   Show{Progress: "auto", CI: "auto"},
		Engine: Engine{Queue: defaultQueue, TTL: 10 * time.Second, Reach: 30 * time.Second},
		Serve:  Serve{Feed: core.Feed{MaxQueued: 100_000}, Keep: 24 * time.Hour},
	}
}

// finish sets the defaults that depend on other options.
func (o *Options) finish() {
	if o.Fed() {
		o.Input.Groups = []input.Group{{Values: []string{}}} // an empty list of values, so that the run does not read stdin
		if len(o.Engine.Hosts) == 0 {
			o.Engine.Reach = 0 // workers may join later, for tasks that are added later
		}
	}
	slices.SortFunc(o.Queue.Caps, func(a, b task.Cap) int { return strings.Compare(a.Name, b.Name) })
	if p := &o.Pool; o.variesDir() {
		p.Dirs, p.Workdir = p.Workdir, ""
	}
	out := &o.Output
	if o.Do == DoAttach {
		out.KeepOrder = out.Mode != "raw"
	}
	if f := &o.Failure; o.Show.DryRun { // nothing runs that needs these
		out.KeepOrder, o.Control.Off = true, true
		o.Pool.Lock, o.Pool.Jitter, o.Machine = "", 0, Machine{}
		f.Limit, o.Queue.Rate, o.Queue.KeyRate = core.Limit{}, task.Rate{}, task.Rate{}
		if f.Halt.When == core.Pause { // nobody can resume it
			f.Halt.When = core.Never
		}
	}
	out.Joblog, out.Append = strings.CutPrefix(out.Joblog, "+")
	o.Sched.Order = strings.TrimPrefix(o.Sched.Order, "input")
	if o.Pool.TTY {
		out.Mode = "raw"
	}
	if p := &o.Pipe; p.On {
		if p.Block == 0 && p.Records == 0 {
			p.Block = DefaultBlock
		}
		if !o.Any("recend recstart") {
			p.End = "\n"
		}
		if o.Coproc.Words != "" { // a filter's last block ends only when the filter exits, so the next one overlaps it
			o.Coproc.Window = max(o.Coproc.Window, 2)
		}
	}
	c := &o.Command
	c.NoArgs = c.MaxArgs == 0 && o.given("max-args") != nil
	switch {
	case c.MaxArgs > 0 || c.MaxChars > 0:
	case c.Spread:
		c.MaxChars = spreadChars
	default:
		c.MaxArgs = 1
	}
	if r := &o.Failure.Retry; o.given("retry-max-delay") == nil {
		r.MaxDelay = max(r.MaxDelay, r.Delay)
	} else if o.given("retry-delay") == nil {
		r.Delay = min(r.Delay, r.MaxDelay)
	}
}

// spreadChars is the default size of a command with -X. xargs fills its commands to the same size. Larger
// commands hardly run faster, and up to one per worker is held back.
const spreadChars = 128 << 10

// DefaultBlock is the default of --block.
const DefaultBlock = 1 << 20
