package runner

import (
	"os"
	"slices"
	"syscall"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// Signals handles the signals that crew itself receives: it catches them, turns them into commands,
// and lets crew die of one. Before CatchSignals, they have their default action. The exceptions are
// SIGQUIT, SIGUSR1 and SIGUSR2, which package kernel catches from the start, since the Go runtime
// would act on them itself.
type Signals struct {
	ladder

	caught              chan syscall.Signal
	ending              []syscall.Signal // the caught signals that ask for the end of the run
	jobControl          bool             // SIGTSTP and SIGCONT are caught, too
	stopSelf, sendFence func()           // stop this process, and send it the fence
	quit, done          chan struct{}    // nil before Serve

	suspension suspension // of Serve's goroutine
}

// suspension is how far crew has followed a SIGTSTP.
type suspension uint8

const (
	notSuspended suspension = iota
	suspended               // the run is suspended, but other signals may have come meanwhile
	fenceSeen               // the signals before the fence are handled
	stopped                 // this process has been stopped, or will be in a moment
)

// fence is a signal that crew sends to itself once the run is suspended. Of pending signals, the
// lowest number is delivered first, and all signals that a user may send have lower numbers, so the
// fence comes after those that came before it. Nothing else sends it.
const fence = syscall.SIGVTALRM

// CatchSignals catches signals, and keeps a few of them until Serve. SIGINT, SIGHUP and SIGTSTP
// stay ignored if they were ignored when the process began, as in background jobs of scripts and
// under nohup; for other signals the Go runtime does not tell. Process 1 ignores SIGTSTP, since no
// shell could continue it. From now on, a write to a closed pipe returns an error and does not end
// the process.
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

// Serve turns signals into commands for r until Release:
//
//   - The first SIGINT drains, the second one stops, and the third one kills.
//   - SIGTERM stops, unless TermDrains makes it like SIGINT. SIGHUP drains.
//   - SIGQUIT calls status, in a goroutine of its own since status may wait for a reader. A second
//     SIGQUIT within two seconds kills.
//   - SIGUSR1 and SIGUSR2 make the pool one slot larger or smaller.
//   - SIGTSTP, from Ctrl-Z, reaches crew alone, since tasks are not in the terminal's foreground process
//     group. Crew stops the tasks, calls hide to remove its display, and then stops itself, unless
//     another signal has come meanwhile that continues the run: SIGCONT, or one that asks for the end.
func (s *Signals) Serve(r *Run, status func(*task.Snapshot), hide func()) {
	s.quit, s.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(s.done)
		for {
			select {
			case <-s.quit:
				s.endSuspension(r)
				return
			case sig := <-s.caught:
				s.followJobControl(r, sig, hide)
				if cmd := s.command(sig, time.Now()); cmd.Op != 0 {
					if now := r.Do(cmd).Snapshot; now != nil {
						go status(now)
					}
				}
			}
		}
	}()
}

// followJobControl suspends and continues the run as sig asks.
func (s *Signals) followJobControl(r *Run, sig syscall.Signal, hide func()) {
	switch {
	case sig == syscall.SIGTSTP && s.suspension == notSuspended:
		s.suspension = suspended
		r.Do(task.Command{Op: task.Suspend})
		r.exec.Suspend()
		hide()
	case sig == syscall.SIGTSTP && s.suspension == stopped: // the kernel dropped a SIGCONT that was pending
		s.suspension = suspended
	case sig == fence && s.suspension == suspended:
		s.suspension = fenceSeen
	case sig == syscall.SIGCONT || slices.Contains(s.ending, sig):
		s.endSuspension(r)
	}
	switch {
	case len(s.caught) > 0:
	case s.suspension == suspended: // again after each signal, since there may have been no room for the last fence
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

// Release gives the signals that ask for the end their default action, so that they end crew even
// while its last line waits for a reader. The others stay caught: a resize that comes too late must
// not kill crew. Release may be called again.
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

// Await calls f in a goroutine, and waits until it returns, or until a signal asks for the end. It
// returns that signal, or 0, and a channel that is closed once f has returned. It must come after
// Release.
func (s *Signals) Await(f func()) (syscall.Signal, <-chan struct{}) {
	_ = kernel.Notify(s.caught, s.ending...) // CatchSignals has done what can fail
	defer s.Release()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for {
		select {
		case <-done:
			return 0, done
		case sig := <-s.caught:
			if slices.Contains(s.ending, sig) {
				return sig, done
			}
		}
	}
}

// ladder counts how urgently signals have asked for the end.
type ladder struct {
	// TermDrains makes the first SIGTERM drain the run, instead of stopping it. It is for runs that
	// get their tasks from others and are ended like that as a matter of routine. It must be set
	// before Serve.
	TermDrains bool

	rung     int
	lastQuit time.Time // when the last SIGQUIT came
}

// quitAgain is how soon a second SIGQUIT must follow the first one to kill.
const quitAgain = 2 * time.Second

// command returns the command for a signal. Its Op is 0 if the signal asks for nothing.
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
		if l.rung++; !l.TermDrains {
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

// Die ends the process by sig, so that its parent sees a death by signal: only then does bash end a
// script at Ctrl-C. With group, Die sends sig to the whole process group. It returns if sig is
// ignored or blocked.
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
