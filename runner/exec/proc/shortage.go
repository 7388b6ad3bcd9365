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
	backoffMax   = 500 * time.Millisecond

	shortageGrace = 10 * time.Second // how long to wait for a resource that no task of this run holds
	shortageAgain = 10 * time.Second // minimum time between two messages about a shortage
	replaceGrace  = 5 * time.Second  // how long to wait for a program that is being written or replaced

	fewProcesses = 512  // if fewer processes and threads are available, crew saves threads
	fewFiles     = 1024 // if the limit on descriptors is lower, the open ones are counted

	// spareFiles is the number of descriptors that attempts leave to crew: for the guardian's
	// table and both ends of its pipe, a spool, the journal's index, a list of failed tasks and, for a moment,
	// a result and a file in /proc.
	spareFiles = 8

	// ownProcesses is the number of crew's threads while it saves threads, and of the guardian's.
	ownProcesses = 8 + kernel.SignalThreads + 4

	// LeastProcesses is the number of processes and threads that a run needs at least, with a task
	// that has one child. With fewer, the Go runtime dies with a message that does not help users.
	LeastProcesses = ownProcesses + 2

	// LeastFiles is the number of descriptors that a Local needs to run one task at a time:
	// its own, the attempt's, and the spare ones.
	LeastFiles = 1 + 4 + spareFiles
)

// ErrNotExecutable is wrapped by the error of an attempt whose program did not become executable in time.
var ErrNotExecutable = errors.New("gave up after 5s") // replaceGrace

// ErrShort is wrapped by the error of a worker that lacks a resource held by other workers, perhaps
// until the end of the run.
var ErrShort = errors.New("waits to start")

// FilesLeft returns how many more descriptors this process can open.
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

// shortage is the state of a run that lacks a resource that processes need.
type shortage struct {
	waiting   atomic.Int64  // number of attempts that wait for the turn or have it
	turn      chan struct{} // holds a value while an attempt has the turn
	threads   atomic.Bool   // crew has to save threads
	saveAbove int64         // crew saves threads once this many attempts run
	maxLive   int64         // how many attempts may run at once

	// Only the attempt that has the turn uses these fields.

	lastNotice time.Time // when the last message was shown
	giveUpAt   time.Time // when to give up; zero if there is no shortage
}

// newShortage decides when crew has to save threads, which may be from the start. Threads count
// towards the limit on processes, and the Go runtime dies if it cannot create one. Each attempt takes
// a process and a thread, so half of the limit is still free when a quarter of it is the number of
// attempts.
func newShortage(processes int64) *shortage {
	s := &shortage{turn: make(chan struct{}, 1), saveAbove: math.MaxInt64, maxLive: math.MaxInt64}
	if processes > 0 {
		s.saveAbove = processes / 4
	}
	if SavesThreads(processes) {
		s.maxLive = AtOnce(processes)
		s.saveThreads()
	}
	return s
}

// SavesThreads reports whether a Local with this Config.Processes saves threads from the
// start.
func SavesThreads(processes int64) bool { return processes > 0 && processes < fewProcesses }

// AtOnce returns how many tasks can run at once if there can be this many processes and threads in
// all. It allows for crew itself and for one child per task, as most scripts need one.
func AtOnce(processes int64) int64 { return max(1, (processes-ownProcesses)/2) }

// saveThreads makes attempts poll instead of blocking threads.
func (s *shortage) saveThreads() {
	if s.threads.CompareAndSwap(false, true) {
		reserveThreads()
	}
}

// reserveThreads makes the runtime create, while it still can, all threads that a run needs if its
// attempts do not block them. The reader, the pump, signals and an attempt that starts may
// each block in a system call. Together with the runtime's own threads, these are the first 8 of
// ownProcesses.
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

// isShortage reports whether err is a shortage of a resource that processes release again.
func isShortage(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) ||
		errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, errNoPTY)
}

// faultError means that crew could not do its part, so that the run has to end.
type faultError struct{ error }

func (e faultError) Unwrap() error { return e.error }

// startNow starts the process, but waits while a resource is short. Only one attempt tries at a time
// then: if several each held half of the resources that they need, they could wait forever. If no
// task of this run is left that could release the resource, startNow fails with a faultError after a
// grace period. A worker does not wait while other processes run: it fails with ErrShort.
func (l *Local) startNow(ctx context.Context, a task.Attempt, argv []string) (*process, error) {
	s := l.shortage
	worker := a.Task.Protocol != task.NoProtocol
	try := func() (*process, error) {
		p, err := l.startOnce(ctx, a, argv)
		if worker && isShortage(err) && l.live.Load() > 0 {
			err = fmt.Errorf("%w: %v", ErrShort, err)
		}
		return p, err
	}
	if worker || !s.threads.Load() && s.waiting.Load() == 0 {
		p, err := try()
		if !isShortage(err) {
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
		if !isShortage(err) {
			s.giveUpAt = time.Time{}
			return p, err
		}
		now := time.Now()
		if pause == 0 && now.Sub(s.lastNotice) > shortageAgain {
			s.lastNotice = now
			l.noticeWaiting(a, err)
		}
		if errors.Is(err, syscall.EAGAIN) {
			s.threads.Store(true)
		}
		if s.giveUpAt.IsZero() || l.live.Load() > 0 {
			s.giveUpAt = now.Add(shortageGrace)
		} else if now.After(s.giveUpAt) { // giveUpAt stays set, so the next attempt fails at once
			return nil, faultError{fmt.Errorf("%s cannot start: %w", nameOfAttempt(a), err)}
		}
		if err := backoff(ctx, &pause); err != nil {
			s.giveUpAt = time.Time{}
			return nil, err
		}
	}
}

func (l *Local) noticeWaiting(a task.Attempt, err error) {
	l.notice(fmt.Sprintf("%s waits to start: %v", nameOfAttempt(a), err))
}

// backoff sleeps for twice the last pause, within bounds. It returns an error when ctx is
// done.
func backoff(ctx context.Context, pause *time.Duration) error {
	*pause = min(max(2**pause, backoffFirst), backoffMax)
	select {
	case <-time.After(*pause):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// program identifies the program of a task. Equal values find the same file.
type program struct{ name, dir, path string }

// mayBeReplaced reports whether err may mean that the program is being replaced: it is open for
// writing, or missing.
func mayBeReplaced(err error) bool {
	_, bad := errors.AsType[*commandError](err)
	return bad || errors.Is(err, syscall.ETXTBSY)
}

// startAfterWait waits and starts an attempt that failed with err, if its program is being written, or is
// missing but was started last. If the program does not appear in time, later attempts do not wait for a
// missing program until a program has been started again.
func (l *Local) startAfterWait(ctx context.Context, a task.Attempt, argv []string, err error) (*process, error) {
	dir, path := l.dirAndPath(a.Task)
	if !errors.Is(err, syscall.ETXTBSY) && l.lastProgram.Load() != (program{argv[0], dir, path}) {
		return nil, err
	}
	l.noticeWaiting(a, err)
	var pause time.Duration
	for until := time.Now().Add(replaceGrace); time.Now().Before(until); {
		if err := backoff(ctx, &pause); err != nil {
			return nil, err
		}
		var p *process
		if p, err = l.startNow(ctx, a, argv); err == nil || !mayBeReplaced(err) {
			return p, err
		}
	}
	l.lastProgram.Store(program{})
	return nil, fmt.Errorf("%w: %w", err, ErrNotExecutable)
}
