package wiring

import (
	"fmt"
	"slices"
	"sync"

	"crew/runner/decide/task"
	"crew/runner/front/cli"
	"crew/runner/read/input"
)

// openWorker makes what brings the tasks of crew worker.
func (w *wiring) openWorker() (err error) {
	if o := w.opts; o.Do == cli.DoWork {
		w.worker, err = w.far.Work(Work{
			Engine: o.Engine, Name: o.Control.Name, Workdir: o.Pool.Workdir, Store: w.store, Window: o.Coproc.Window, Offers: o.Queue.Caps,
			Template: w.source.commandTemplate(), Make: (&maker{source: w.source, known: map[string]*input.Tasks{}}).fill,
			Do: w.do, Notice: w.screen.Notice, Ready: w.workerReady,
		})
	}
	return err
}

// workerReady says, also to systemd, that runs can find crew worker.
func (w *wiring) workerReady() {
	w.remark("worker " + w.worker.Host() + " is ready for tasks of queue " + w.opts.Engine.Queue + " on " +
		task.Count(int64(w.plan.jobs), "slot"))
	tellReady("crew worker", w.screen.Notice)
}

// maker makes commands of records that a submitter has read. It is safe for concurrent
// use.
type maker struct {
	source *source

	mu    sync.Mutex
	known map[string]*input.Tasks // by what differs from submitter to submitter
}

// mostKnown is how many templates a maker keeps.
const mostKnown = 64

// fill sets the command of a task that has its records, of which names are the columns, in a
// run with these limits.
func (m *maker) fill(t *task.Task, names, caps []string) error {
	several := len(t.Records) > 1
	key := fmt.Sprintf("%v %q %q", several, names, caps)
	m.mu.Lock()
	defer m.mu.Unlock()
	tasks := m.known[key]
	if tasks == nil {
		o := *m.source.opts
		if several {
			o.Command.MaxArgs = len(t.Records)
		}
		o.Queue.Caps = nil // that is what the worker offers
		for _, name := range caps {
			o.Queue.Caps = append(o.Queue.Caps, task.Cap{Name: name})
		}
		s := &source{opts: &o, reader: input.Named(slices.Clone(names))}
		if err := s.compile(); err != nil {
			return err
		}
		if len(m.known) >= mostKnown {
			clear(m.known)
		}
		tasks = s.tasks
		m.known[key] = tasks
	}
	return tasks.Fill(t)
}
