package cli

import (
	"errors"
	"fmt"
	"os"
	"time"

	"crew/runner/task"
)

// watchEvery is how often the file of --jobs is looked at. Looking works on
// every file system, where notification does not.
const watchEvery = 500 * time.Millisecond

// watchJobs reads the file of --jobs again whenever it has changed and has the
// pool resized, or paused where it says 0, until stop is called. now is what was
// read before; the file may have changed since, so the first look reads it in any
// case. A file that is gone, or holds no number of workers, changes nothing;
// notice is told so once.
func watchJobs(file string, now int, do func(task.Command), notice func(string)) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	var last os.FileInfo // as it was at the latest look; nil before that and where it was gone
	gone := false
	go func() {
		defer close(done)
		t := time.NewTicker(watchEvery)
		defer t.Stop()
		for {
			select {
			case <-quit:
				return
			case <-t.C:
			}
			st, err := os.Stat(file)
			if err != nil && gone || err == nil && unchanged(last, st) {
				continue
			}
			last, gone = st, err != nil
			var n int
			if gone {
				err = errors.Unwrap(err) // without the path
			} else {
				n, _, err = readJobs(file)
			}
			if err != nil {
				// Not to wait for whoever reads stderr.
				go notice(fmt.Sprintf("--jobs %s: %v: the number of workers stays as it is", file, err))
				continue
			}
			if n == now {
				continue
			}
			follow(now, n, file, do, notice)
			now = n
		}
	}()
	return func() { close(quit); <-done }
}

// follow has the pool become what its file says, after what it said before.
func follow(before, now int, file string, do func(task.Command), notice func(string)) {
	switch {
	case now == 0:
		do(task.Command{Op: task.Pause})
		go notice("paused: --jobs " + file + " says 0")
		return
	case before == 0:
		defer do(task.Command{Op: task.Resume})
		go notice(fmt.Sprintf("going on: --jobs %s says %d", file, now))
	}
	do(task.Command{Op: task.Resize, N: now})
}

// unchanged says whether a file is as it was; before may be nil.
func unchanged(before, now os.FileInfo) bool {
	return before != nil && os.SameFile(before, now) && before.ModTime().Equal(now.ModTime()) && before.Size() == now.Size()
}
