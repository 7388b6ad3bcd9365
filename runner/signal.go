package runner

import (
	"os"
	"slices"
	"syscall"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// Signals handles the signals that crew itself receives: it catches them, turns
// them into commands, and makes crew die of one. Until CatchSignals they have
// their default action, except that package kernel catches SIGQUIT, SIGUSR1 and
// SIGUSR2 from the start, since the Go runtime would act on these itself.
type Signals struct {
	// TermDrains is set before Serve if the first SIGTERM is to drain: a run that others
	// feed is ended like that as a matter of routine.
	TermDrains bool

	caught              chan syscall.Signal
	ending              []syscall.Signal // the caught ones that ask for the end
	jobControl          bool             // SIGTSTP and SIGCONT are caught as well
	stopSelf, sendFence func()           // they stop this process, and send it fence
	quit, done          chan struct{}    // nil before Serve

	suspension suspension // of Serve's goroutine
}

// suspension is how far SIGTSTP has got.
type suspension uint8

const (
	notSuspended suspension = iota
	suspended               // the run is, but other signals may have come meanwhile
	fenceSeen               // those that had are obeyed
	stopped                 // this process has been stopped, or will be in a moment
)

// fence comes behind the signals that came before the run was suspended: crew sends it to itself,
// and of signals that come together, those with lower numbers are told of first, as all have
// that a user may mean. Nobody else sends it.
const fence = syscall.SIGVTALRM

// CatchSignals catches signals and keeps a few of them until Serve. SIGINT, SIGHUP
// and SIGTSTP stay ignored if they were when the process began, as in background
// jobs of scripts and under nohup; for other signals the Go runtime does not tell.
// Process 1 ignores SIGTSTP, since no shell could continue it.
// From now on a write to a closed pipe is an error and does not end the process.
func CatchSignals() (*Signals, error) {
	kernel.SurvivePipes()
	s := newSignals()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if !kernel.Ignored(sig) {
			s.ending = append(s.ending, sig)
		}
	}
	all := append(s.ending[:len(s.ending):len(s.ending)], syscall.SIGUSR1, syscall.SIGUSR2)
	if s.jobControl = !kernel.Ignored(syscall.SIGTSTP) && !kernel.IsInit(); s.jobControl {
		all = append(all, syscall.SIGTSTP, syscall.SIGCONT, fence)
	}
	if err := kernel.Notify(s.caught, all...); err != nil {
		return nil, err
	}
	return s, nil
}

func newSignals() *Signals {
	return &Signals{
		caught: make(chan syscall.Signal, 16),
		// The default action of SIGTSTP would not stop an orphaned process group, but
		// SIGSTOP does.
		stopSelf:  func() { _ = syscall.Kill(os.Getpid(), syscall.SIGSTOP) },
		sendFence: func() { _ = syscall.Kill(os.Getpid(), fence) },
	}
}

// Serve turns signals into commands for a run until Release. The first SIGINT
// drains, the second stops, the third kills. SIGTERM stops, unless Gentle makes it
// like SIGINT; SIGHUP drains. SIGQUIT has status called, in a goroutine of its own
// since that may wait for a reader; a second SIGQUIT within two seconds kills.
// SIGUSR1 and SIGUSR2 make the pool one larger or smaller. Tasks are not in the
// terminal's foreground process group, so Ctrl-Z reaches crew alone: at SIGTSTP
// crew stops the tasks, has hide remove what it displays, and then stops itself
// unless another signal has come that continues the run: SIGCONT, or one that asks for
// the end.
func (s *Signals) Serve(r *Run, status func(*task.Snapshot), hide func()) {
	s.quit, s.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.done)
		l := ladder{termDrains: s.TermDrains}
		for {
			select {
			case <-s.quit:
				s.endSuspension(r)
				return
			case sig := <-s.caught:
				s.followJobControl(r, sig, hide)
				if cmd := l.command(sig, time.Now()); cmd.Op != 0 {
					if now := r.Do(cmd).Snapshot; now != nil {
						go status(now)
					}
				}
			}
		}
	}()
}

// followJobControl suspends and continues the run as a signal asks.
func (s *Signals) followJobControl(r *Run, sig syscall.Signal, hide func()) {
	switch {
	case sig == syscall.SIGTSTP && s.suspension == notSuspended:
		s.suspension = suspended
		r.Do(task.Command{Op: task.Suspend})
		r.exec.Suspend()
		hide()
	case sig == syscall.SIGTSTP && s.suspension == stopped: // the kernel drops a SIGCONT right before it
		s.suspension = suspended
	case sig == fence && s.suspension == suspended:
		s.suspension = fenceSeen
	case sig == syscall.SIGCONT || slices.Contains(s.ending, sig):
		s.endSuspension(r)
	}
	switch {
	case len(s.caught) > 0:
	case s.suspension == suspended: // again behind each signal, since those before it left perhaps no room
		s.sendFence()
	case s.suspension == fenceSeen:
		s.suspension = stopped
		s.stopSelf()
	}
}

// endSuspension continues the run if it is suspended.
func (s *Signals) endSuspension(r *Run) {
	if s.suspension != notSuspended {
		s.suspension = notSuspended
		r.exec.Resume()
		r.Do(task.Command{Op: task.Continue})
	}
}

// Release gives the signals that ask for the end their default action, so that
// they end crew even if its last line waits for a reader. The others stay caught:
// a resize that comes too late must not kill crew. It may be called again.
func (s *Signals) Release() {
	if s.quit != nil {
		close(s.quit)
		<-s.done
		s.quit = nil
	}
	for _, sig := range s.ending {
		kernel.Reset(sig)
	}
	if s.jobControl {
		kernel.Reset(syscall.SIGTSTP)
	}
}

// Await begins something after Release. It waits until the channel that begin returns is closed,
// or until a signal asks for the end, and returns that, or 0.
func (s *Signals) Await(begin func() <-chan struct{}) syscall.Signal {
	err := kernel.Notify(s.caught, s.ending...)
	done := begin()
	if err != nil {
		<-done
		return 0
	}
	defer s.Release()
	for {
		select {
		case <-done:
			return 0
		case sig := <-s.caught:
			if slices.Contains(s.ending, sig) {
				return sig
			}
		}
	}
}

// ladder counts how urgently signals have asked for the end.
type ladder struct {
	termDrains bool
	rung       int
	lastQuit   time.Time // when the last SIGQUIT came
}

// quitAgain is how soon after a SIGQUIT another one kills.
const quitAgain = 2 * time.Second

// command returns the command for a signal. Its Op is 0 if there is none.
func (l *ladder) command(s syscall.Signal, now time.Time) task.Command {
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
		if l.rung++; !l.termDrains {
			l.rung = max(l.rung, 2)
		}
	case syscall.SIGQUIT:
		last := l.lastQuit
		l.lastQuit = now
		if now.Sub(last) > quitAgain {
			return task.Command{Op: task.Look}
		}
		l.rung = 3
	default:
		return task.Command{}
	}
	ops := [...]task.Op{task.Drain, task.Stop, task.Kill}
	return task.Command{Op: ops[min(l.rung, len(ops))-1], Signal: int(s)}
}

// Die ends the process by sig, so that its parent sees a death by signal: bash
// ends a script at Ctrl-C only then. If group, sig goes to the process group. Die
// returns if sig is ignored or blocked.
func Die(sig syscall.Signal, group bool) {
	if kernel.Ignored(sig) {
		return
	}
	kernel.Reset(sig)
	pid := os.Getpid()
	if group {
		pid = 0
	}
	if err := kernel.Kill(pid, sig); err == nil {
		// The signal may arrive in another thread a moment after kill has returned.
		time.Sleep(time.Second)
	}
}
