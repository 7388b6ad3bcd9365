package wiring

import (
	"fmt"
	"math"

	"crew/runner"
	"crew/runner/cli"
	"crew/runner/core"
	"crew/runner/kernel"
	"crew/runner/machine"
	"crew/runner/task"
)

// checkMachine returns an error if a run on this machine goes by what crew does not learn from
// this system.
func checkMachine(o *cli.Options) error {
	if !kernel.Portable || o.Elsewhere() || o.Show.DryRun {
		return nil
	}
	for _, c := range []struct {
		typed, what string
		used        bool
	}{
		{o.Typed("load"), "how many processes have something to do", o.Machine.Load.N > 0},
		{o.Typed("memfree"), "how much memory is free", o.Machine.MemFree.N > 0},
		{o.Typed("topics") + " auto", "how long tasks wait for a processor", o.Sched.Topics.Auto},
	} {
		if c.used {
			return misuse(c.typed+": this system does not tell "+c.what, "drop it")
		}
	}
	return nil
}

// boundsOf returns the bounds for the load and the memory that options set on a machine. The error
// is that it does not tell these.
func boundsOf(o *cli.Options, m *machine.Machine) (b core.Machine, err error) {
	if o.Machine.Load.N > 0 {
		if _, err = m.Load(); err != nil {
			return b, fmt.Errorf("%s: %w", o.Typed("load"), err)
		}
		b.Load = o.Machine.Load.Of(float64(m.Processors()))
	}
	if o.Machine.MemFree.N > 0 {
		_, total, err := m.Memory()
		if err != nil {
			return b, fmt.Errorf("%s: %w", o.Typed("memfree"), err)
		}
		if b.Memory = int64(o.Machine.MemFree.Of(float64(total))); b.Memory >= total {
			return b, misuse(o.Typed("memfree")+": there are only "+task.Size(total)+" of memory in all", "write less, or such as 10%")
		}
		b.End = o.Failure.RetryOn.Has(task.Memory)
	}
	return b, nil
}

// watchMachine has the run know the machine that its tasks run on.
func (w *wiring) watchMachine() {
	o := w.opts
	if o.Show.DryRun || o.Far() || w.attached != nil {
		return
	}
	here := machine.New("")
	deaths := machine.NewDeaths(here)
	w.onClose(deaths.Close)
	w.made.Watch(runner.Machine{Starved: deaths.Another, Figures: func() (processes float64, free int64) {
		if o.Machine.Load.N > 0 {
			processes, _ = here.Load()
		}
		if free = math.MaxInt64; o.Machine.MemFree.N > 0 {
			if now, _, err := here.Memory(); err == nil {
				free = now
			}
		}
		return processes, free
	}})
}
