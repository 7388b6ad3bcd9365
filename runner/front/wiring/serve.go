package wiring

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"

	"crew/runner"
	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/front/cli"
	"crew/runner/steer/control"
)

// openFeed makes the feed of crew serve.
func (w *wiring) openFeed() error {
	if w.opts.Do == cli.DoServe {
		w.feed = newFeed(w.source, w.state, w.do, w.goesOn)
		w.onClose(w.feed.close)
	}
	return nil
}

// announce says how to add tasks to crew serve. It returns an error if nobody could:
// there is no socket, or another crew serve has the name.
func (w *wiring) announce() error {
	if err := w.needSocket(); err != nil || w.feed == nil {
		return err
	}
	name := w.opts.Control.Name
	if name != "" {
		if other := older(name); other != 0 {
			return fmt.Errorf("a crew serve called %s runs already, as process %d: give another --name", name, other)
		}
	}
	name = cmp.Or(name, strconv.Itoa(os.Getpid()))
	w.remark("serving as " + name + ": add tasks with crew ctl add --to " + name)
	tellReady("crew serve", w.screen.Notice)
	return nil
}

// needSocket returns an error if the run has no socket and depends on one: others feed
// it, or have to resume it after --halt pause.
func (w *wiring) needSocket() error {
	what := ""
	switch {
	case w.feed != nil:
		what = "crew serve"
	case w.control != nil && w.opts.Failure.Halt.When == core.Pause:
		what = "--halt pause"
	default:
		return nil
	}
	if err := w.control.Err(); err != nil {
		return fmt.Errorf("%s needs a socket: %w: set XDG_RUNTIME_DIR to a directory that only you can enter", what, err)
	}
	return nil
}

// older returns the process of another crew serve with a name, or 0. Of two that have
// begun at the same time, one is the older.
func older(name string) int {
	list := control.List() // by age
	same := func(h control.Hello) bool { return h.PID == os.Getpid() || h.Feeds && h.Name == name }
	if i := slices.IndexFunc(list, same); i >= 0 && list[i].PID != os.Getpid() {
		return list[i].PID
	}
	return 0
}

// tells returns the sink s that tells people of the run. Of crew serve it tells nothing
// that an earlier one has done.
func tells(o *cli.Options, s runner.Sink) runner.Sink {
	if o.Do == cli.DoServe {
		return own{s}
	}
	return s
}

// own is a sink that gets only what the run itself has done.
type own struct{ runner.Sink }

func (s own) Consume(events []task.Event) error {
	before := func(e task.Event) bool { return e.Task != nil && e.Task.Done != nil }
	if slices.ContainsFunc(events, before) {
		events = slices.DeleteFunc(slices.Clone(events), before)
	}
	return s.Sink.Consume(events)
}

func (s own) Close(stats task.Stats) error { return s.Sink.Close(stats.Own()) }

// goesOn says how many tasks an earlier crew serve has left.
func (w *wiring) goesOn(tasks int) {
	if tasks == 0 {
		return
	}
	left, _ := w.state.Resumed()
	w.remarkLeft(task.Count(int64(tasks), "task")+" to run", left.Running)
}
