package proc

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/task"
)

const (
	backoffFirst = 5 * time.Millisecond
	backoffMost  = 500 * time.Millisecond
	// shortageGrace is how long to wait for something that no task of this run
	// holds, and ownShortageGrace how long where no other process can hold it
	// either.
	shortageGrace    = 10 * time.Second
	ownShortageGrace = time.Second
	// shortageAgain is the least time between two lines about a shortage.
	shortageAgain = 10 * time.Second
	// fewProcesses is a limit on processes so low that crew has to save threads.
	fewProcesses = 512
)

// shortage is the state of a run in which the system has run out of something
// that processes take.
type shortage struct {
	waiting  atomic.Int64  // attempts that wait for their turn or try in it
	turn     chan struct{} // holds one value while an attempt tries
	hopeless atomic.Bool   // an attempt waited in vain, and the run is about to end
	threads  atomic.Bool   // crew has to save threads
	told     time.Time     // when the last line about it was printed; of the attempt that has the turn
}

// newShortage finds out whether threads have to be saved from the start: the
// limit on processes counts them, and the runtime dies when it gets none.
func newShortage() *shortage {
	w := &shortage{turn: make(chan struct{}, 1)}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_NPROC, &limit); err == nil && limit.Cur < fewProcesses && syscall.Getuid() != 0 {
		w.threads.Store(true)
		reserveThreads()
	}
	return w
}

// reserveThreads has the runtime make as many threads as a run needs that saves
// them, while there are some: for the reader, the pump, signals and an attempt
// that starts, all of which may be in a system call, and for goroutines that run.
func reserveThreads() {
	const running, blocked = 2, 4
	runtime.GOMAXPROCS(min(running, runtime.GOMAXPROCS(0)))
	release := make(chan struct{})
	var ready, done sync.WaitGroup
	for range running + blocked {
		ready.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			<-release
		})
	}
	ready.Wait()
	close(release)
	done.Wait()
}

// scarce says whether err is about something that processes take and give back.
func scarce(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) ||
		errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// faultError says that crew could not do its part.
type faultError struct{ error }

func (e faultError) Unwrap() error { return e.error }

// startInTurn starts an attempt while something is scarce: one at a time, since
// attempts that each hold half of what they need would wait for ever. It is
// given up as a fault of the run when no task is left that could give it back.
func (l *Local) startInTurn(ctx context.Context, a task.Attempt, argv []string) (*process, error) {
	w := l.shortage
	w.waiting.Add(1)
	defer w.waiting.Add(-1)
	select {
	case w.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-w.turn }()
	p, err := l.try(a, argv)
	if !scarce(err) {
		return p, err
	}
	grace := shortageGrace
	if errors.Is(err, syscall.EMFILE) {
		grace = ownShortageGrace
	}
	if errors.Is(err, syscall.EAGAIN) {
		w.threads.Store(true)
	}
	if p, err = l.tryAgain(ctx, a, argv, err, grace); scarce(err) {
		w.hopeless.Store(true)
		err = faultError{fmt.Errorf("task %d cannot start: %w", a.Task.ID, err)}
	}
	return p, err
}

// tryAgain tries until it works, fails for another reason than err, or no task
// has run for as long as grace. It says so first.
func (l *Local) tryAgain(ctx context.Context, a task.Attempt, argv []string, err error, grace time.Duration) (*process, error) {
	if time.Since(l.shortage.told) > shortageAgain {
		l.shortage.told = time.Now()
		l.sayWaits(a, err)
	}
	var b backoff
	until := time.Now().Add(grace)
	for {
		if l.live.Load() > 0 {
			until = time.Now().Add(grace) // a running task will give something back
		} else if time.Now().After(until) || l.shortage.hopeless.Load() {
			return nil, err
		}
		if err := b.sleep(ctx); err != nil {
			return nil, err
		}
		var p *process
		if p, err = l.try(a, argv); !scarce(err) {
			return p, err
		}
	}
}

// sayWaits says what an attempt waits for.
func (l *Local) sayWaits(a task.Attempt, err error) {
	l.notice(fmt.Sprintf("task %d waits to start: %v", a.Task.ID, err))
}

// backoff is how long to wait between tries.
type backoff struct{ next time.Duration }

// sleep waits, longer each time, or until ctx is done.
func (b *backoff) sleep(ctx context.Context) error {
	b.next = min(max(2*b.next, backoffFirst), backoffMost)
	t := time.NewTimer(b.next)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
