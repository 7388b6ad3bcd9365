package cli

import "time"

// carried are the options that a run takes along when it is handed over. Of a template, which its tasks
// have filled in, only that there is one matters.
const (
	detachOptions   = "sched topics per-key cap rate key-rate buffer delay jitter order halt fail-fast deadline flaky-fail input " + retryOptions
	retryOptions    = "retries retry-delay retry-max-delay retry-on timeout idle-timeout kill-after"
	templateOptions = "key cost priority weight needs"
)

// Carried returns the options that a run takes along when it is handed over at a time, each as one word.
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

// ParseCarried returns the options of a run that was handed over. Somebody else may have written the
// words: others than Carried returns are refused.
func ParseDetached(words []string) (*Options, error) {
	c := commandNamed(DoRun)
	l, err := c.split(words)
	for _, u := range l.uses {
		if !hasWord(detachOptions+" "+templateOptions, u.opt.name) {
			err = &UsageError{Msg: "a run that is handed over takes no " + u.spelled}
		}
	}
	if err == nil && len(l.operands) > 0 {
		err = &UsageError{Msg: "a run that is handed over takes no command"}
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
