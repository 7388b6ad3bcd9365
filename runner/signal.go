package runner

import (
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/catch"
	"crew/runner/task"
)

// Signals sends the process's signals to out as commands until stop is called:
// SIGINT drains, a second one stops, a third one kills; SIGTERM stops at once;
// SIGQUIT kills; SIGHUP drains; SIGUSR1 and SIGUSR2 make the pool one larger or
// smaller.
// SIGINT and SIGHUP stay ignored where they were when the process began (in a
// background job of a script, under nohup); of the others the Go runtime leaves
// nobody to know that. A write to a closed pipe is an error from now on, and no
// death.
func Signals(out chan<- task.Command) (stop func(), err error) {
	catch.SurvivePipes()
	in := make(chan syscall.Signal, 16)
	var end []syscall.Signal
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !catch.Ignored(s) {
			end = append(end, s)
		}
	}
	if err := catch.Take(in, append(end, syscall.SIGUSR1, syscall.SIGUSR2)...); err != nil {
		return nil, err
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
				select {
				case out <- l.command(s):
				case <-quit:
					return
				}
			}
		}
	}()
	return func() {
		close(quit)
		<-done
		// The last line may wait for a reader for ever. A resize that comes too
		// late is no reason to die.
		for _, s := range end {
			catch.Reset(s)
		}
	}, nil
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
	case syscall.SIGQUIT:
		l.rung = 3
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
