package proc

import (
	"context"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// Worker is a process group that serves many attempts. One goroutine uses it; only
// Signal is safe for concurrent use.
type Worker struct {
	// The other ends of its standard streams, which do not block; -1 when closed. The
	// caller may close them.
	In, Out, Err int

	// PID is the ID of its leader, and of the group.
	PID int

	p *process
}

// StartWorker starts the command of an attempt as a worker: with the environment and
// directory of its task, and with pipes for its standard streams. It fails as Run
// does, or with ErrShort: see StartFailed. The guardian, Suspend, Resume and Close
// cover the worker; Kill, PIDs and Live do not know it.
func (l *Local) StartWorker(ctx context.Context, a task.Attempt) (*Worker, error) {
	t := *a.Task // without what is the record's
	t.ID, t.Key, t.Stdin, t.Block, t.Makes = 0, "", nil, nil, nil
	a.Task = &t
	p, err := l.start(ctx, a, a.Exec())
	if err != nil {
		return nil, err
	}
	return &Worker{In: p.in, Out: p.out.fd, Err: p.err.fd, PID: p.pid, p: p}, nil
}

// Signal sends sig to the group, unless it has been reaped. A stopped group continues.
func (w *Worker) Signal(sig syscall.Signal) { w.p.end(task.Cancelled, sig) }

// Exit returns a descriptor that is readable once the leader has exited, or -1 if there
// is none to be had. Reap closes it.
func (w *Worker) Exit() int { return w.p.exit() }

// Unread returns how many bytes that were written to In nobody has read, as far as is known.
func (w *Worker) Unread() int { return kernel.Pending(w.In) }

// Exited reports whether the leader has exited.
func (w *Worker) Exited() bool { return kernel.Exited(w.PID, unix.WNOHANG) }

// Reap waits for the leader to exit, kills what it left behind in its group, and closes
// all descriptors.
func (w *Worker) Reap() syscall.WaitStatus {
	ws, _, _ := w.p.await()
	w.p.sweep()
	w.p.live.Add(-1)
	w.p.in, w.p.out.fd, w.p.err.fd = w.In, w.Out, w.Err
	w.p.closeOurEnds()
	w.In, w.Out, w.Err = -1, -1, -1
	return ws
}

// nameOfAttempt returns how messages call the process of an attempt.
func nameOfAttempt(a task.Attempt) string {
	if a.Task.Protocol != task.NoProtocol {
		return "worker " + strconv.Itoa(a.Slot.ID)
	}
	return "task " + strconv.FormatUint(a.Task.ID, 10)
}
