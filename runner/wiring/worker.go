package wiring

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"crew/runner"
	"crew/runner/cli"
	"crew/runner/coproc"
	"crew/runner/input"
	"crew/runner/proc"
	"crew/runner/task"
)

// openWorker makes what brings the tasks of crew worker.
func (w *wiring) openWorker() (err error) {
	if o := w.opts; o.Do == cli.DoWork {
		w.worker, err = w.programs.Far.Work(Work{
			URL: o.Engine.URL, Workdir: o.Pool.Workdir, Queue: o.Engine.Queue, Name: o.Control.Name, Labels: o.Engine.Labels, TTL: o.Engine.TTL,
			Commands: o.Engine.Commands, Trust: o.Engine.Trust, Template: w.source.commandTemplate(),
			Make: newMaker(w.source).fill, Do: w.do, Notice: w.screen.Notice,
		})
	}
	return err
}

// workLocally returns the executor of crew worker. It streams all output to where the
// worker takes it.
func (w *wiring) workLocally(cfg proc.Config) (runner.Executor, error) {
	cfg.Plan, cfg.Open = task.Plan{Show: task.ShowLines}, w.worker.Open
	local, err := w.local(cfg)
	if err != nil {
		return nil, err
	}
	o := w.opts
	workers, err := coproc.New(coproc.Config{
		Local: local.(*proc.Local), Stray: w.stray,
		LifeOf: func(t *task.Task) coproc.Life {
			if l := w.worker.Life(t); l != nil {
				life := coproc.Life{Start: l.Start, Records: l.Records, Age: l.Age, KillAfter: o.Failure.KillAfter}
				if l.Ready != "" {
					life.Ready, _ = regexp.Compile(l.Ready) // the run has done so, too
				}
				return life
			}
			return life(o)
		},
	})
	if err != nil {
		return nil, err
	}
	exec := w.worker.Executor(workers)
	w.close = append(w.close, exec.Close)
	w.onClose(w.signals.Release) // first, so that a signal ends the wait for persistent workers
	return exec, nil
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

func newMaker(s *source) *maker { return &maker{source: s, known: map[string]*input.Tasks{}} }

// fill sets the command of a task that has its records, of which names are the columns.
func (m *maker) fill(t *task.Task, names []string) error {
	several := len(t.Records) > 1
	key := fmt.Sprint(several) + "\x00" + strings.Join(names, "\x00")
	m.mu.Lock()
	defer m.mu.Unlock()
	tasks := m.known[key]
	if tasks == nil {
		o := *m.source.opts
		if several {
			o.Command.MaxArgs = len(t.Records)
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
