package proc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/kernel"
	"crew/runner/task"
)

const (
	backoffFirst = 5 * time.Millisecond
	backoffMost  = 500 * time.Millisecond

	shortageGrace    = 10 * time.Second // how long to wait for a resource that no task of this run holds
	ownShortageGrace = time.Second      // the same, if no other process can hold it either
	shortageAgain    = 10 * time.Second // the least time between two messages about a shortage
	replaceGrace     = 5 * time.Second  // how long to wait for a program that is being written or replaced

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
	n := int64(2)
	switch {
	case t.Protocol != task.NoProtocol:
		return 6
	case l.cfg.Plan.Show == task.ShowRaw:
		n = 1 // a pidfd
	case l.cfg.readsStdout():
		n = 4
	}
	if l.cfg.PTY && !kernel.PTYKeeps {
		n += 2
	}
	if t.Stdin != nil || t.Block != nil {
		n += 2
	}
	return n
}

// shortage is the state of a run that is short of a resource that processes need.
type shortage struct {
	waiting  atomic.Int64  // attempts that wait for their turn or have it
	turn     chan struct{} // holds a value while an attempt has the turn
	hopeless atomic.Bool   // an attempt gave up, and the run is about to end
	threads  atomic.Bool   // crew has to save threads
	many     int64         // how many attempts at once make it do so
	most     int64         // how many attempts may run at once
	told     time.Time     // when the last message was shown; belongs to the attempt that has the turn
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
	var pause time.Duration
	var until time.Time
	for {
		p, err := try()
		switch {
		case !scarce(err):
			return p, err
		case pause == 0 && time.Since(s.told) > shortageAgain:
			s.told = time.Now()
			l.sayWaits(a, err)
		}
		if errors.Is(err, syscall.EAGAIN) {
			s.threads.Store(true)
		}
		grace := shortageGrace
		if errors.Is(err, syscall.EMFILE) {
			grace = ownShortageGrace
		}
		if pause == 0 || l.live.Load() > 0 {
			until = time.Now().Add(grace)
		} else if time.Now().After(until) || s.hopeless.Load() {
			s.hopeless.Store(true)
			return nil, faultError{fmt.Errorf("%s cannot start: %w", nameOfAttempt(a), err)}
		}
		if err := backoff(ctx, &pause); err != nil {
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
type program struct {
	name, dir, path string // dir and path are empty if name does not depend on them
	lost            bool   // an attempt has waited for it in vain
}

func newProgram(name, dir, path string) program {
	switch {
	case filepath.IsAbs(name):
		return program{name: name}
	case strings.Contains(name, "/"):
		return program{name: name, dir: dir}
	}
	return program{name: name, path: path}
}

// unfinished reports whether err may mean that the program is being replaced: it
// is open for writing, or missing.
func unfinished(err error) bool {
	return errors.Is(err, syscall.ETXTBSY) || errors.As(err, new(*commandError))
}

// startLater waits and starts an attempt that failed with err, if its program is
// being written, or is missing but ran last. After waiting in vain, it does not
// wait for the same program again until that has run.
func (l *Local) startLater(ctx context.Context, a task.Attempt, argv []string, err error) (*process, error) {
	dir, path := l.surroundings(a.Task)
	want := newProgram(argv[0], dir, path)
	lost := want
	lost.lost = true
	last := l.ran.Load()
	switch {
	case last != nil && *last == lost:
		return nil, fmt.Errorf("%w: %w", err, ErrInVain)
	case !errors.Is(err, syscall.ETXTBSY) && (last == nil || *last != want):
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
	l.ran.Store(&lost)
	return nil, fmt.Errorf("%w: %w", err, ErrInVain)
}
