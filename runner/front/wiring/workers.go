package wiring

import (
	"io"
	"runtime"
	"runtime/debug"
	"strconv"

	"crew/runner"
	"crew/runner/decide/task"
	"crew/runner/exec/coproc"
	"crew/runner/exec/proc"
	"crew/runner/front/cli"
	"crew/runner/read/expand"
)

// checkWorker refuses placeholders in the command of persistent workers that depend on the record.
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

// workerExecutor returns the executor of crew worker, or of a run with persistent workers.
func (w *wiring) workerExecutor(local *proc.Local) runner.Executor {
	cfg := coproc.Config{Local: local, Life: w.opts.Coproc.Life}
	cfg.Stray = func(s task.Slot) io.WriteCloser { return w.stdout.OpenStderr("worker " + strconv.Itoa(s.ID)) }
	if w.worker == nil && w.opts.Coproc.Eager {
		cfg.Eager = w.source.tasks.Worker()
	}
	exec := coproc.New(cfg)
	if w.worker != nil {
		far := w.worker.Executor(exec)
		w.onEnd(far.Close)
		w.onClose(w.signals.Release) // before far.Close, so that a signal ends its wait for persistent workers
		return far
	}
	w.onEnd(exec.Close)
	if !proc.SavesThreads(w.plan.processes) {
		tuneRuntime(w.plan.jobs)
	}
	return exec
}

// tuneRuntime tunes the Go runtime for a million records per second and n workers. The records use little
// memory, so 20 MB more are cheaper than frequent collections: a garbage percentage of 400 instead of 100
// takes 0.8 of the time. A goroutine that waits for a worker in poll(2) counts as running until the
// runtime notices, so without a higher GOMAXPROCS the reader and the sinks would wait: it takes 0.85 of the
// time.
func tuneRuntime(n int) {
	debug.SetGCPercent(400)
	procs := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(procs + min(n, procs))
}
