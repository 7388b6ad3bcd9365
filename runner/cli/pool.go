package cli

import (
	"math/rand/v2"

	"crew/runner"
	"crew/runner/task"
	"crew/sched"
)

// newPolicy makes the policy that was asked for.
func newPolicy(o *Options) (sched.Policy, error) {
	if o.Sched.LongestFirst {
		return sched.NewLongestFirst(o.Pool.Jobs), nil
	}
	return sched.New(o.Sched.Policy, o.Pool.Jobs, o.Sched.Topics)
}

// retry says which failures get another attempt, and when.
func retry(f Failure) runner.Retry {
	return runner.Retry{
		Max: f.Retries, Delay: f.RetryDelay, MaxDelay: f.RetryMaxDelay,
		On: f.RetryOn.match, Jitter: rand.Float64,
	}
}

// match says whether a failed attempt is worth another.
func (on RetryOn) match(r *task.Result) bool {
	switch r.Outcome {
	case task.Exit:
		for _, e := range on.Exit {
			if e.From <= r.Code && r.Code <= e.To {
				return true
			}
		}
	case task.Signal:
		return on.Any || on.Signal
	case task.Timeout:
		return on.Any || on.Timeout
	case task.StartFailed:
		return on.Any || on.Start
	}
	return on.Any
}

// halt is when a run of so many tasks, where that matters, stops early.
func halt(h Halt, tasks uint64) runner.Halt {
	r := runner.Halt{N: h.N, Percent: h.Percent, Tasks: tasks}
	switch h.When {
	case "soon":
		r.When = runner.Soon
	case "now":
		r.When = runner.Now
	}
	switch h.On {
	case "success":
		r.On = runner.OnSuccess
	case "done":
		r.On = runner.OnDone
	}
	return r
}
