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

// openFeed creates the feed of crew serve.
func (w *wiring) openFeed() error {
	if w.opts.Do == cli.DoServe {
		w.feed = newFeed(w.source, w.state, w.do, w.remarkRestored)
		w.onClose(w.feed.close)
		w.tasks = w.feed
	}
	return nil
}

// announce says how to add tasks to crew serve. It returns an error if clients cannot reach a run that needs
// them: there is no socket, or another crew serve has the name.
func (w *wiring) announce() error {
	name, what := w.opts.Control.Name, "crew serve"
	switch {
	case w.feed != nil:
	case w.opts.Failure.Halt.When == core.Pause: // clients have to resume the run
		what = "--halt pause"
	default:
		return nil
	}
	if err := w.control.Err(); err != nil {
		return fmt.Errorf("%s needs a socket: %w: set XDG_RUNTIME_DIR to a directory that only you can enter", what, err)
	}
	if w.feed == nil {
		return nil
	}
	if name != "" {
		if other := olderServe(name); other != 0 {
			return fmt.Errorf("a crew serve called %s is already running as process %d: give another --name", name, other)
		}
	}
	name = cmp.Or(name, strconv.Itoa(os.Getpid()))
	w.remark("serving as " + name + ": add tasks with crew ctl add --to " + name)
	tellReady("crew serve", w.screen.Notice)
	return nil
}

// olderServe returns the process ID of an older crew serve with this name, or 0. The order is total, so of
// two that started at the same time exactly one is older.
func olderServe(name string) int {
	list := control.List() // by age
	same := func(h control.Hello) bool { return h.PID == os.Getpid() || h.Feeds && h.Name == name }
	if i := slices.IndexFunc(list, same); i >= 0 && list[i].PID != os.Getpid() {
		return list[i].PID
	}
	return 0
}

// ownEvents returns s, a sink that prints messages. For crew serve it hides the events of tasks that an
// earlier crew serve ran.
func ownEvents(o *cli.Options, s runner.Sink) runner.Sink {
	if o.Do == cli.DoServe {
		return ownSink{s}
	}
	return s
}

// ownSink is a sink without the events of tasks that an earlier run finished.
type ownSink struct{ runner.Sink }

func (s ownSink) Consume(events []task.Event) error {
	before := func(e task.Event) bool { return e.Task != nil && e.Task.Done != nil }
	if slices.ContainsFunc(events, before) {
		events = slices.DeleteFunc(slices.Clone(events), before)
	}
	return s.Sink.Consume(events)
}

func (s ownSink) Close(stats task.Stats) error { return s.Sink.Close(stats.WithoutEarlier()) }

// remarkRestored says how many tasks an earlier crew serve left.
func (w *wiring) remarkRestored(tasks int) {
	if tasks == 0 {
		return
	}
	left, _ := w.state.Resumed()
	w.remarkResumed(task.Count(int64(tasks), "task")+" to run", left.Running)
}
