package cli

import "time"

// detached takes the options of a detached run that its submitting process needs. It is no command of users.
var detached = command{name: "detached"}

// DetachWords returns the options that a run takes along when it is detached at time now, one word each.
func (o *Options) DetachWords(now time.Time) (words []string) {
	for _, u := range o.uses {
		switch name := u.opt.name; {
		case !detached.takes(u.opt) || name == "input" && !o.ObjectTasks():
			continue
		case name == "deadline" && o.Failure.Limit.Run > 0:
			u.value = now.Add(o.Failure.Limit.Run).Format(time.RFC3339Nano)
		case hasWord("key cost priority weight needs", name):
			u.value = "{#}" // the tasks have already expanded the template, so it only matters that it is given
		}
		words = append(words, u.word())
	}
	return words
}

// ParseDetached parses the words of DetachWords. The words may come from another user, so it refuses all
// other options.
func ParseDetached(words []string) (*Options, error) {
	l, err := detached.split(words)
	if err != nil {
		return nil, err
	}
	o, err := detached.read(l)
	if err != nil {
		return nil, err
	}
	o.Do = DoRun
	o.Output.KeepOrder, o.Show.Quiet, o.Show.Progress, o.Show.CI = true, true, "never", "none"
	o.finish()
	return o, nil
}
