package cli

import "time"

// The options of a detached run that its submitting process needs. The tasks have already expanded the
// templates, so it only matters that the options are given.
const (
	detachOptions   = "sched topics per-key cap rate key-rate buffer delay jitter order halt fail-fast deadline flaky-fail input " + retryOptions
	retryOptions    = "retries retry-delay retry-max-delay retry-on timeout idle-timeout output-max kill-after"
	templateOptions = "key cost priority weight needs"
)

// DetachWords returns the options that a run takes along when it is detached at time now, one word each.
func (o *Options) DetachWords(now time.Time) (words []string) {
	for _, u := range o.uses {
		switch name := u.opt.name; {
		case name == "input" && !o.ObjectTasks():
			continue
		case name == "deadline" && o.Failure.Limit.Run > 0:
			u.value = now.Add(o.Failure.Limit.Run).Format(time.RFC3339Nano)
		case hasWord(templateOptions, name):
			u.value = "{#}"
		case !hasWord(detachOptions, name):
			continue
		}
		words = append(words, u.word())
	}
	return words
}

// ParseDetached parses the words of DetachWords. The words may come from another user, so it refuses all
// other options.
func ParseDetached(words []string) (*Options, error) {
	c := commandNamed(DoRun)
	l, err := c.split(words)
	for _, u := range l.uses {
		if !hasWord(detachOptions+" "+templateOptions, u.opt.name) {
			err = &UsageError{Msg: "a detached run takes no " + u.spelled}
		}
	}
	if err == nil && len(l.operands) > 0 {
		err = &UsageError{Msg: "a detached run takes no command"}
	}
	if err != nil {
		return nil, err
	}
	o, err := c.read(l)
	if err != nil {
		return nil, err
	}
	o.Output.KeepOrder, o.Show.Quiet, o.Show.Progress, o.Show.CI = true, true, "never", "none"
	o.finish()
	return o, nil
}
