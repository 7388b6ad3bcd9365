package cli

import (
	"slices"
	"strings"

	"crew/runner"
	"crew/runner/core"
	"crew/runner/task"
)

// attaching stands in Options.uses for the words engine attach and the run's name. It
// is not in the table.
var attaching = option{name: "attach", value: takesFarRun, set: func(o *Options, v string) (err error) {
	o.Engine.Attach, err = parseText(v)
	return err
}}

// attachJobs is how many results are fetched at once.
const attachJobs = 4

// attachOptions are the options of runs that crew engine attach takes.
const attachOptions = "keep-order output tag tag-string json results joblog junit ci progress quiet quiet-success"

// attaches reports whether a command line, without the program's name, is one of crew
// engine attach, other than for its help.
func attaches(args []string) bool {
	return len(args) > 1 && args[0] == "engine" && args[1] == "attach" &&
		!slices.ContainsFunc(args, func(a string) bool { return a == "-h" || a == "--help" })
}

// splitAttach splits the arguments of crew engine attach. The run's name may be among
// the options.
func splitAttach(args []string) (all line, err error) {
	const write = "write crew engine attach RUN [options]"
	var words []string
	for len(args) > 0 {
		l, err := split(args)
		if err != nil {
			return l, err
		}
		all.uses = append(all.uses, l.uses...)
		if args = l.rest; len(args) > 0 {
			words, args = append(words, args[0]), args[1:]
		}
	}
	switch {
	case len(words) == 0:
		return all, &usageError{"crew engine attach needs the name of a run", write}
	case len(words) > 1:
		return all, &usageError{"\"" + words[1] + "\" is one word too many", write}
	}
	all.uses = append([]use{{opt: &attaching, spelled: "engine attach", value: words[0]}}, all.uses...)
	return all, nil
}

// notShown refuses options with crew engine attach that do not say how to show
// results.
func notShown(o *Options) *refusal {
	if o.given(attaching.name) == nil {
		return nil
	}
	for i := range o.uses {
		u := &o.uses[i]
		if name := u.opt.name; u.opt != &attaching && name != "engine" && !slices.Contains(strings.Fields(attachOptions), name) {
			return refuse(u.withChoice()+" and engine attach do not go together",
				"the tasks have run or run already: drop "+u.opt.typed(), u)
		}
	}
	return nil
}

// attach connects to the run whose results are to be shown.
func (w *wiring) attach() (err error) {
	o := w.opts
	if o.Engine.Attach == "" {
		return nil
	}
	w.attached, err = w.programs.Far.Attach(Attachment{
		URL: o.Engine.URL, Run: o.Engine.Attach, Plan: w.plan, Store: w.store, Open: w.stdout.Open, Notice: w.screen.Notice,
	})
	if err == nil {
		w.close = append(w.close, w.attached.Close)
		w.total.set(w.attached.Tasks())
	}
	return err
}

// tagged is a source whose tasks get their tags here.
type tagged struct {
	runner.Source
	tag func(*task.Task)
}

// Next returns the next task. See runner.Source.
func (s tagged) Next(number func() uint64) (*task.Task, error) {
	t, err := s.Source.Next(number)
	if err == nil {
		s.tag(t)
	}
	return t, err
}

// detached removes a run from the engine once all its results were shown.
func (w *wiring) detached(e core.Ending) error {
	if w.attached == nil || e.Reason != core.Completed || e.Unshown || w.stdout.Lost() > 0 {
		return nil
	}
	return w.attached.Forget()
}
