package proc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

const (
	backoffFirst = 5 * time.Millisecond
	backoffMost  = 500 * time.Millisecond

	shortageGrace = 10 * time.Second // how long to wait for a resource that no task of this run holds
	shortageAgain = 10 * time.Second // the least time between two messages about a shortage
	replaceGrace  = 5 * time.Second  // how long to wait for a program that is being written or replaced

	fewProcesses = 512  // with fewer processes and threads crew has to save threads
	fewFiles     = 1024 // a limit on descriptors under which the open ones are counted

	// spareFiles is the number of descriptors that attempts leave to crew: for the guardian's
	// table and both ends of its pipe, a spool, the journal's index, a list of failed tasks and, for a moment,
	// a result and a file in /proc.
	spareFiles = 8

	// ownProcesses is how many threads crew has when it saves them, and the guardian.
	ownProcesses = 8 + kernel.SignalThreads + 4

	// LeastProcesses is how many processes and threads a run takes at least: a task with a
	// child beside its own. With fewer the Go runtime dies, and not in words that help.
	LeastProcesses = ownProcesses + 2

	// LeastFiles is the number of descriptors that a Local opens to run one task at a time:
	// its own, those of the attempt, and the spare ones.
	LeastFiles = 1 + 4 + spareFiles
)

// ErrInVain is wrapped by the error of an attempt whose program did not become
// executable in time.
var ErrInVain = errors.New("waited 5s for it in vain") // replaceGrace

// ErrShort is wrapped by the error of a worker for which something is short that other
// workers hold, perhaps as long as the run lasts.
var ErrShort = errors.New("waits to start")

// FilesLeft returns how many more descriptors this process may open.
func FilesLeft() int64 {
	left := int64(min(kernel.Limit(syscall.RLIMIT_NOFILE), math.MaxInt64))
	if left >= fewFiles {
		return left
	}
	for fd := range uintptr(left) {
		if _, err := unix.FcntlInt(fd, unix.F_GETFD, 0); err == nil {
			left--
		}
	}
	return left
}

// filesOf returns how many descriptors an attempt of t opens.
func (l *Local) filesOf(t *task.Task) int64 {
	n := int64(4)
	if l.PTY {
		n += 2
	}
	if t.Stdin != nil || t.Block != nil || t.Protocol != task.NoProtocol {
		n += 2
	}
	return n
}

// shortage is the state of a run that is short of a resource that processes need.
type shortage struct {
	waiting atomic.Int64  // attempts that wait for their turn or have it
	turn    chan struct{} // holds a value while an attempt has the turn
	threads atomic.Bool   // crew has to save threads
	many    int64         // how many attempts at once make it do so
	most    int64         // how many attempts may run at once

	// They belong to the attempt that has the turn.

	told  time.Time // when the last message was shown
	until time.Time // when to give up; zero before it is short
}

// newShortage finds out when crew has to save threads, perhaps from the start: they
// count towards the limit on processes, and the Go runtime dies if it cannot create
// one. An attempt takes a process and a thread, so with a quarter of the limit half of
// it is left.
func newShortage(processes int64) *shortage {
	s := &shortage{turn: make(chan struct{}, 1), many: math.MaxInt64, most: math.MaxInt64}
	if processes > 0 {
		s.many = processes / 4
	}
	if SavesThreads(processes) {
		s.most = AtOnce(processes)
		s.saveThreads()
	}
	return s
}

// SavesThreads reports whether a Local with that Config.Processes has to save threads from the
// start.
func SavesThreads(processes int64) bool { return processes > 0 && processes < fewProcesses }

// AtOnce returns how many tasks can run at once beside crew if there are so many processes and
// threads in all: each may have a child, without which most scripts fail.
func AtOnce(processes int64) int64 { return max(1, (processes-ownProcesses)/2) }

// saveThreads has attempts no longer block threads.
func (s *shortage) saveThreads() {
	if s.threads.CompareAndSwap(false, true) {
		reserveThreads()
	}
}

// reserveThreads makes the runtime create all the threads that a run without
// blocked attempts needs, while there still are some. The reader, the pump, signals
// and an attempt that starts may each block in a system call. With the runtime's own, these
// are the first 8 of ownProcesses.
func reserveThreads() {
	const running, blocked = 1, 4
	runtime.GOMAXPROCS(running)
	var ready, done sync.WaitGroup
	ready.Add(running + blocked)
	for range running + blocked {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			ready.Wait()
		})
	}
	done.Wait()
}

// scarce reports whether err is a shortage of something that processes hold for a
// while.
func scarce(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) ||
		errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, errNoPTY)
}

// faultError means that crew could not do its part, so the run has to end.
type faultError struct{ error }

func (e faultError) Unwrap() error { return e.error }

// startNow starts the process, but waits while something is short. One attempt
// tries at a time then: several, each holding half of what it needs, could wait for
// ever. When no task of this run is left that could release the resource, startNow
// waits for a grace period and then fails with a faultError.
func (l *Local) startNow(ctx context.Context, a task.Attempt, argv []string) (*process, error) {
	s := l.shortage
	worker := a.Task.Protocol != task.NoProtocol
	try := func() (*process, error) {
		p, err := l.try(ctx, a, argv)
		if worker && scarce(err) && l.live.Load() > 0 {
			err = fmt.Errorf("%w: %v", ErrShort, err)
		}
		return p, err
	}
	if worker || !s.threads.Load() && s.waiting.Load() == 0 {
		p, err := try()
		if !scarce(err) {
			return p, err
		}
	}
	s.waiting.Add(1)
	defer s.waiting.Add(-1)
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.turn }()
	for pause := time.Duration(0); ; {
		p, err := try()
		if !scarce(err) {
			s.until = time.Time{}
			return p, err
		}
		now := time.Now()
		if pause == 0 && now.Sub(s.told) > shortageAgain {
			s.told = now
			l.sayWaits(a, err)
		}
		if errors.Is(err, syscall.EAGAIN) {
			s.threads.Store(true)
		}
		if s.until.IsZero() || l.live.Load() > 0 {
			s.until = now.Add(shortageGrace)
		} else if now.After(s.until) { // and so it is for the next attempt
			return nil, faultError{fmt.Errorf("%s cannot start: %w", nameOfAttempt(a), err)}
		}
		if err := backoff(ctx, &pause); err != nil {
			s.until = time.Time{}
			return nil, err
		}
	}
}

func (l *Local) sayWaits(a task.Attempt, err error) {
	l.notice(fmt.Sprintf("%s waits to start: %v", nameOfAttempt(a), err))
}

// backoff sleeps for longer each time, twice the last pause within bounds. It
// returns an error when ctx is done.
func backoff(ctx context.Context, pause *time.Duration) error {
	*pause = min(max(2**pause, backoffFirst), backoffMost)
	select {
	case <-time.After(*pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// program identifies the program of a task: equal values find the same file.
type program struct{ name, dir, path string }

// unfinished reports whether err may mean that the program is being replaced: it
// is open for writing, or missing.
func unfinished(err error) bool {
	_, bad := errors.AsType[*commandError](err)
	return bad || errors.Is(err, syscall.ETXTBSY)
}

// startLater waits and starts an attempt that failed with err, if its program is
// being written, or is missing but ran last. After waiting in vain, it does not
// wait for a missing program again until one has run.
func (l *Local) startLater(ctx context.Context, a task.Attempt, argv []string, err error) (*process, error) {
	dir, path := l.surroundings(a.Task)
	if !errors.Is(err, syscall.ETXTBSY) && l.ran.Load() != (program{argv[0], dir, path}) {
		return nil, err
	}
	l.sayWaits(a, err)
	var pause time.Duration
	for until := time.Now().Add(replaceGrace); time.Now().Before(until); {
		if err := backoff(ctx, &pause); err != nil {
			return nil, err
		}
		var p *process
		if p, err = l.startNow(ctx, a, argv); err == nil || !unfinished(err) {
			return p, err
		}
	}
	l.ran.Store(program{})
	return nil, fmt.Errorf("%w: %w", err, ErrInVain)
}
