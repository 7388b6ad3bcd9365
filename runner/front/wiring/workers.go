package wiring

import (
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"

	"crew/runner"
	"crew/runner/decide/core"
	"crew/runner/decide/task"
	"crew/runner/exec/coproc"
	"crew/runner/exec/proc"
	"crew/runner/front/cli"
	"crew/runner/read/expand"
)

// checkWorker refuses placeholders in the worker's command that differ from record to
// record.
func checkWorker(o *cli.Options, cfg expand.Config) error {
	text, err := expand.NewText(o.Coproc.Words, cfg)
	if err != nil {
		return misuse("bad value for --worker", err.Error())
	}
	if p := text.OfTask(); p != "" {
		return misuse(o.Typed("worker")+" cannot hold "+p,
			"a worker takes many records, and reads them from its standard input; {%} and {host} are known")
	}
	if len(text.Caps()) > 0 {
		return misuse(o.Typed("worker")+" cannot hold {"+text.Caps()[0]+"}", "a worker takes many records, each with units of its own: "+
			"with --worker-protocol json they come with the record")
	}
	return nil
}

// lifeOf returns what a life is on this machine.
func lifeOf(l task.Life, f core.Limit) coproc.Life {
	life := coproc.Life{Start: l.Start, Records: l.Records, Age: l.Age, Timeout: f.Timeout, Idle: f.Idle, KillAfter: f.KillAfter}
	if l.Ready != "" {
		life.Ready, _ = regexp.Compile(l.Ready) // cli has done so, too
	}
	return life
}

// stray returns where stderr of a worker goes that belongs to no record.
func (w *wiring) stray(s task.Slot) io.WriteCloser {
	return w.stdout.OpenStderr("worker " + strconv.Itoa(s.ID))
}

// workers returns the executor of crew worker, or that of records for persistent workers.
func (w *wiring) workers(cfg coproc.Config) runner.Executor {
	if own := cfg.Life; w.worker != nil {
		cfg.LifeOf = func(t *task.Task) coproc.Life {
			if l := w.worker.Life(t); l != nil {
				return lifeOf(*l, w.opts.Failure.Limit)
			}
			return own
		}
	} else if w.opts.Coproc.Eager {
		cfg.Life.Eager = w.source.tasks.Worker()
	}
	exec := coproc.New(cfg)
	if w.worker != nil {
		far := w.worker.Executor(exec)
		w.close = append(w.close, far.Close)
		w.onClose(w.signals.Release) // first, so that a signal ends the wait for persistent workers
		return far
	}
	w.close = append(w.close, exec.Close)
	if !proc.SavesThreads(w.plan.processes) {
		tune(w.plan.jobs)
	}
	return exec
}

// tune sets the Go runtime for a million records a second and n workers. A collection
// costs more than 20 MB, of which the records need little: 4 instead of 1 times the live
// heap takes 0.8 of the time. A goroutine that waits in poll(2) for a worker counts as
// running until the runtime notices, so without more of them the reader and the sinks
// would wait: 0.85 of the time.
func tune(n int) {
	debug.SetGCPercent(400)
	procs := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(procs + min(n, procs))
}
