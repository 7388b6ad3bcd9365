package runner

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/linux"
	"crew/runner/task"
)

// Signals are the process's own signals: how they are taken, what they mean to a
// run, and how crew dies by one. Before CatchSignals they do what they do to any
// program; package linux sees to SIGQUIT, SIGUSR1 and SIGUSR2 from the start,
// with which the Go runtime has plans of its own.
type Signals struct {
	in         chan syscall.Signal
	ends       []syscall.Signal // those taken that ask for the end
	jobs       bool             // SIGTSTP and SIGCONT are taken, too
	quit, done chan struct{}    // nil before Serve
}

// CatchSignals takes the signals from now on. They wait until Serve, at most as
// many as fit. SIGINT, SIGHUP, SIGTSTP stay ignored where they were when the
// process began (in a background job of a script, under nohup); of the others
// the Go runtime leaves nobody to know that. A write to a closed pipe is an error
// from now on, and no death.
func CatchSignals() (*Signals, error) {
	linux.SurvivePipes()
	s := &Signals{in: make(chan syscall.Signal, 16)}
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !linux.Ignored(sig) {
			s.ends = append(s.ends, sig)
		}
	}
	all := append(s.ends[:len(s.ends):len(s.ends)], syscall.SIGUSR1, syscall.SIGUSR2)
	if s.jobs = !linux.Ignored(syscall.SIGTSTP); s.jobs {
		all = append(all, syscall.SIGTSTP, syscall.SIGCONT)
	}
	if err := linux.Take(s.in, all...); err != nil {
		return nil, err
	}
	return s, nil
}

// Serve passes the signals on to a run until Release: SIGINT drains, a second one
// stops, a third one kills; SIGTERM stops at once; SIGQUIT kills; SIGHUP drains;
// SIGUSR1 and SIGUSR2 make the pool one larger or smaller. The tasks are not of
// the terminal's foreground group, so Ctrl-Z reaches crew alone: at SIGTSTP it
// stops the tasks and then itself, and at SIGCONT lets them go on.
func (s *Signals) Serve(r *Run) {
	s.quit, s.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.done)
		var l ladder
		for {
			select {
			case <-s.quit:
				return
			case sig := <-s.in:
				for _, sig := range s.suspend(r, sig) {
					if cmd := l.command(sig); cmd.Op != 0 {
						r.Do(cmd)
					}
				}
			}
		}
	}()
}

// suspend stops and continues the run, if that is what sig asks for, and returns
// the signals that are still to be obeyed.
func (s *Signals) suspend(r *Run, sig syscall.Signal) (others []syscall.Signal) {
	if sig != syscall.SIGTSTP {
		return []syscall.Signal{sig}
	}
	r.Do(task.Command{Op: task.Suspend})
	r.exec.Suspend()
	for old := true; old; { // a SIGCONT from before does not count
		select {
		case sig := <-s.in:
			others = append(others, sig)
		default:
			old = false
		}
	}
	// SIGSTOP and not the default action of SIGTSTP, which is none in an orphaned
	// process group. It may take hold a moment after kill returns, so what ends
	// the stop is SIGCONT.
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err == nil {
		for sig != syscall.SIGCONT {
			select {
			case sig = <-s.in:
				others = append(others, sig)
			case <-s.quit:
				sig = syscall.SIGCONT
			}
		}
	}
	r.exec.Resume()
	r.Do(task.Command{Op: task.Continue})
	return others
}

// Release gives the signals that ask for the end their default action: the last
// line of crew may wait for a reader for ever. A resize that comes too late is
// no reason to die.
func (s *Signals) Release() {
	if s.quit != nil {
		close(s.quit)
		<-s.done
	}
	for _, sig := range s.ends {
		linux.Reset(sig)
	}
	if s.jobs {
		linux.Reset(syscall.SIGTSTP)
	}
}

// ladder is how far signals have asked for the end.
type ladder struct{ rung int }

// command is what a signal asks for; its Op is 0 where that is nothing.
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

// Die ends the process by sig, so that the parent sees WIFSIGNALED: bash stops a
// script at Ctrl-C only then. It returns where sig is ignored or blocked.
func Die(sig syscall.Signal) {
	if linux.Ignored(sig) {
		return
	}
	linux.Reset(sig)
	if err := syscall.Kill(os.Getpid(), sig); err == nil {
		// The kernel may deliver to another thread, a moment after kill returns.
		time.Sleep(time.Second)
	}
}
