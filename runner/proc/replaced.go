package proc

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"crew/runner/task"
)

// replaceGrace is how long a program is waited for that is being written, or is
// gone and has run before.
const replaceGrace = 5 * time.Second

// ErrInVain is in the error of an attempt whose program was waited for.
var ErrInVain = fmt.Errorf("waited %v for it in vain", replaceGrace)

// program is what tasks run: the same one where these are equal.
type program struct {
	name, dir, path string // of dir and path, what it takes to find name
	lost            bool   // it was waited for in vain
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

// hasRun remembers the program that has started last.
func (l *Local) hasRun(p program) {
	if last := l.ran.Load(); last == nil || *last != p {
		l.ran.Store(&p)
	}
}

// unfinished says whether err may be about a program that is just being
// replaced: it is open for writing, or not there.
func unfinished(err error) bool {
	return errors.Is(err, syscall.ETXTBSY) || errors.As(err, new(*commandError))
}

// startLater starts an attempt that has failed with err, once that has passed:
// somebody is writing the program, or it is not there and has run before. One
// that was waited for in vain is not waited for again until it has run.
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
	var b backoff
	for until := time.Now().Add(replaceGrace); time.Now().Before(until); {
		if err := b.sleep(ctx); err != nil {
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
