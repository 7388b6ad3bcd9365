package proc

import (
	"context"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// Worker is a process group that serves many attempts. It is not safe for concurrent use.
type Worker struct {
	// In, Out and Err are crew's ends of its standard streams. They do not block. The caller may
	// close them and must then set them to -1.
	In, Out, Err int

	// PID is the ID of the leader and of the group.
	PID int

	p *process
}

// StartWorker starts the command of an attempt as a worker, with the environment and directory of its
// task and with pipes for its standard streams. It fails like Run (see StartFailed), or with
// ErrShort. The guardian, Suspend, Resume and Close handle the worker; Kill, PIDs and Live
// ignore it.
func (l *Local) StartWorker(ctx context.Context, a task.Attempt) (*Worker, error) {
	t := *a.Task // without the fields that belong to the record
	t.ID, t.Key, t.Stdin, t.Block, t.Makes = 0, "", nil, nil, nil
	a.Task = &t
	p, err := l.start(ctx, a, a.Exec())
	if err != nil {
		return nil, err
	}
	return &Worker{In: p.in, Out: p.out, Err: p.err, PID: p.pid, p: p}, nil
}

// Terminate asks the group to end, once, and kills it if it does not end within the grace period. With kill,
// it kills it now. If too little memory is left, why must say so.
func (w *Worker) Terminate(why task.Outcome, kill bool, grace time.Duration) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.p.limit.KillAfter = grace
	w.p.terminateLocked(why, kill)
}

// Exit returns a descriptor that becomes readable when the leader exits, or -1 if the system cannot
// provide one. Reap closes it.
func (w *Worker) Exit() int { return w.p.exitFD() }

// Unread returns how many bytes written to In have not been read, as far as the system tells.
func (w *Worker) Unread() int { return kernel.Pending(w.In) }

// Exited reports whether the leader has exited.
func (w *Worker) Exited() bool { return kernel.Exited(w.PID, unix.WNOHANG) }

// Reap waits for the leader to exit, kills the processes that it left behind, and closes
// all descriptors.
func (w *Worker) Reap() syscall.WaitStatus {
	ws, _, _ := w.p.awaitLeader()
	w.p.sweep()
	w.p.live.Add(-1)
	w.p.in, w.p.out, w.p.err = w.In, w.Out, w.Err
	w.p.closeOurEnds()
	w.In, w.Out, w.Err = -1, -1, -1
	return ws
}

// nameOfAttempt returns the name of an attempt's process in messages.
func nameOfAttempt(a task.Attempt) string {
	if a.Task.Protocol != task.NoProtocol {
		return "worker " + strconv.Itoa(a.Slot.ID)
	}
	return "task " + strconv.FormatUint(a.Task.ID, 10)
}
