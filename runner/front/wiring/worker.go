package wiring

import (
	"fmt"
	"slices"
	"sync"

	"crew/runner/decide/task"
	"crew/runner/front/cli"
	"crew/runner/read/input"
)

// openWorker connects crew worker to the engine, which brings its tasks.
func (w *wiring) openWorker() (err error) {
	if w.opts.Do == cli.DoWork {
		c := w.call()
		c.Make = (&commandMaker{source: w.source, cache: map[string]*input.Tasks{}}).fill
		w.worker, err = w.far.Work(c)
		w.tasks, w.plan.limits.Queue.PerKey = w.worker, 1
	}
	return err
}

// workerReady tells the user and systemd that runs can find this worker.
func (w *wiring) workerReady() {
	w.remark("worker " + w.worker.Host() + " is ready for tasks of queue " + w.opts.Engine.Queue + " on " +
		task.Count(int64(w.plan.jobs), "slot"))
	tellReady("crew worker", w.screen.Notice)
}

// commandMaker makes commands from the records of submitters. It is safe for concurrent use.
type commandMaker struct {
	source *source

	mu    sync.Mutex
	cache map[string]*input.Tasks // by the properties that differ between submitters
}

// maxTemplates is how many templates a commandMaker keeps.
const maxTemplates = 64

// fill sets the command of a task from its records. names are the names of the records' columns, and caps
// the names of the run's limits.
func (m *commandMaker) fill(t *task.Task, names, caps []string) error {
	several := len(t.Records) > 1
	key := fmt.Sprintf("%v %q %q", several, names, caps)
	m.mu.Lock()
	defer m.mu.Unlock()
	tasks := m.cache[key]
	if tasks == nil {
		o := *m.source.opts
		if several {
			o.Command.MaxArgs = len(t.Records)
		}
		o.Queue.Caps = nil // these are the worker's offers
		for _, name := range caps {
			o.Queue.Caps = append(o.Queue.Caps, task.Cap{Name: name})
		}
		s := &source{opts: &o, reader: input.Named(slices.Clone(names))}
		if err := s.compile(); err != nil {
			return err
		}
		if len(m.cache) >= maxTemplates {
			clear(m.cache)
		}
		tasks = s.tasks
		m.cache[key] = tasks
	}
	return tasks.Fill(t)
}
