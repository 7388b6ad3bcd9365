package wiring

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"crew/runner"
	"crew/runner/cli"
	"crew/runner/core"
	"crew/runner/task"
)

// HandOver describes a run whose tasks are stored, for the hub to submit them.
type HandOver struct {
	Place
	Load   // without a command, the values are for that of the queue's workers
	Orders Orders
	Notice func(string)
}

// Store takes the tasks of a run that is handed over. Nothing of it runs before Commit. It is
// safe for concurrent use.
type Store interface {
	Add(*task.Task) error                // in input order, numbered from 1
	Commit() (run string, err error)     // hands the run over
	Withdraw() (tasks uint64, err error) // removes what was stored
}

// Orders say how the hub runs the tasks of a run that was handed over. They are stored as
// JSON.
type Orders struct {
	Sched         cli.Sched
	Terms         cli.Terms
	Failure       cli.Failure // with the deadline as a time
	Delay, Jitter time.Duration
	Buffer, Bytes int  // what is read ahead; see pool
	Plain         bool // no task has terms
	SameCommand   bool // all tasks run the same program
}

// ordersOf returns the orders of a command line whose tasks are handed over now.
func ordersOf(o *cli.Options, p pool) Orders {
	orders := Orders{
		Sched: o.Sched, Terms: o.Terms, Failure: o.Failure, Delay: o.Pool.Delay, Jitter: o.Pool.Jitter, Buffer: p.buffer, Bytes: p.bytes,
		Plain: !o.ObjectTasks() && o.Terms.Priority == "",
	}
	if d := &orders.Failure.Deadline; d.After > 0 {
		*d = cli.Deadline{Until: time.Now().Add(d.After)}
	}
	return orders
}

// Config returns the configuration of a run of so many tasks. Somebody else may have written
// the orders.
func (o *Orders) Config(tasks uint64) (core.Config, error) {
	f, t := &o.Failure, &o.Terms
	for _, n := range []int64{
		int64(o.Delay), int64(o.Jitter), int64(o.Buffer), int64(o.Bytes), int64(o.Sched.PerKey), int64(o.Sched.Topics.Rest), int64(f.Retries),
		int64(f.RetryDelay), int64(f.RetryMaxDelay), int64(f.Timeout), int64(f.Idle), int64(f.KillAfter), int64(f.Halt.N), int64(f.Deadline.After),
		int64(t.Rate.N), int64(t.Rate.Period), int64(t.Rate.Burst), int64(t.KeyRate.N), int64(t.KeyRate.Period), int64(t.KeyRate.Burst),
	} {
		if n < 0 {
			return core.Config{}, fmt.Errorf("%d is no number that a run can be told", n)
		}
	}
	opts := &cli.Options{Do: cli.DoRun, Sched: o.Sched, Terms: o.Terms, Failure: o.Failure, Engine: cli.Engine{URL: "stored"}}
	opts.Pool.Delay, opts.Pool.Jitter = o.Delay, o.Jitter
	cfg, err := (&wiring{opts: opts, pool: pool{buffer: o.Buffer, bytes: o.Bytes}, inputTasks: tasks}).config()
	cfg.Halt.SameCommand = o.SameCommand
	if !o.Plain {
		cfg.Queue.Terms, cfg.Pool.Ahead = true, 0
	}
	return cfg, err
}

// Status returns the exit status of a run that has ended with e.
func (o *Orders) Status(e core.Ending) int {
	if e.Reason == core.Broken {
		return statusTrouble
	}
	return statusOf(e, o.Failure)
}

// handOver stores the tasks of a run, and prints the run.
func (w *wiring) handOver() (end ending) {
	store, err := w.openStore()
	if err != nil {
		return ending{err: err}
	}
	caught := make(chan os.Signal, 1)
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		if !signal.Ignored(s) {
			signal.Notify(caught, s)
		}
	}
	defer signal.Stop(caught)
	run, stored := "", make(chan error, 1)
	go func() {
		err := storeAll(w.source.tasks, store)
		if err == nil {
			run, err = store.Commit()
		}
		stored <- err
	}()
	select {
	case end.err = <-stored:
	case s := <-caught:
		end.signal = s.(syscall.Signal)
	}
	if end.err == nil && end.signal == 0 {
		return ending{err: printText(w.out, run+"\n")}
	}
	if n, err := store.Withdraw(); err != nil {
		end.err = errors.Join(end.err, err)
	} else if n > 0 {
		w.screen.Urge(fmt.Sprintf("not all tasks were handed over: those that were, %d, are withdrawn", n))
	}
	return end
}

// openStore opens the input, and what stores the tasks.
func (w *wiring) openStore() (Store, error) {
	if err := w.openInput(); err != nil {
		return nil, err
	}
	place, err := w.place()
	if err != nil {
		return nil, err
	}
	h := HandOver{Place: place, Load: w.load(), Orders: ordersOf(w.opts, w.pool), Notice: w.screen.Notice}
	h.Orders.SameCommand = w.source.sameCommand()
	return w.far.HandOver(h)
}

// storeAll stores all tasks of a source.
func storeAll(tasks interface {
	Next(func() uint64) (*task.Task, error)
}, store Store) error {
	n := uint64(0)
	for {
		t, err := tasks.Next(func() uint64 { n++; return n })
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := store.Add(t); err != nil {
			return fmt.Errorf("hand task %d over: %w", t.ID, err)
		}
	}
}

// attach connects to the run whose results are to be shown.
func (w *wiring) attach() (err error) {
	o := w.opts
	if o.Do != cli.DoAttach {
		return nil
	}
	w.attached, err = w.far.Attach(Attachment{
		URL: o.Engine.URL, Run: o.Ctl.Run, Outputs: w.outputs(), Notice: w.screen.Notice,
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
