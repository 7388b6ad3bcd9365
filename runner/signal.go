package runner

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/task"
)

// Signals sends the process's signals to out as commands until stop is called:
// SIGINT drains, a second one stops, a third one kills; SIGTERM stops at once;
// SIGHUP drains; SIGUSR1 and SIGUSR2 make the pool one larger or smaller.
// Signals that were ignored when the process began (nohup, a background job of
// a script) stay ignored. SIGPIPE and SIGXFSZ are taken so that a write to a
// closed pipe, or past the limit on the size of files, is an error and no death.
func Signals(out chan<- task.Command) (stop func()) {
	in := make(chan os.Signal, 16)
	signal.Notify(in, syscall.SIGPIPE, syscall.SIGXFSZ, syscall.SIGUSR1, syscall.SIGUSR2)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(in, s)
		}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		var l ladder
		for {
			select {
			case <-quit:
				return
			case s := <-in:
				cmd := l.command(s.(syscall.Signal))
				if cmd.Op == 0 {
					continue
				}
				select {
				case out <- cmd:
				case <-quit:
					return
				}
			}
		}
	}()
	return func() { signal.Stop(in); close(quit); <-done }
}

// ladder is how far signals have asked for the end.
type ladder struct{ rung int }

func (l *ladder) command(s syscall.Signal) task.Command {
	switch s {
	case syscall.SIGUSR1:
		return task.Command{Op: task.Grow, N: 1}
	case syscall.SIGUSR2:
		return task.Command{Op: task.Grow, N: -1}
	case syscall.SIGHUP:
		l.rung = max(l.rung, 1)
	case syscall.SIGINT:
		l.rung++
	case syscall.SIGTERM:
		l.rung = max(l.rung+1, 2)
	default:
		return task.Command{}
	}
	ops := [...]task.Op{task.Drain, task.Stop, task.Kill}
	return task.Command{Op: ops[min(l.rung, len(ops))-1], Signal: int(s)}
}

// signalName is the name of a signal, or nothing for none.
func signalName(s int) string {
	if s == 0 {
		return ""
	}
	return unix.SignalName(syscall.Signal(s))
}
