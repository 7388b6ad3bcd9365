package cli

import (
	"os"
	"time"

	"crew/runner/task"
)

// watchEvery is how often the file of --jobs is looked at. Looking works on
// every file system, where notification does not.
const watchEvery = 500 * time.Millisecond

// watchJobs reads the file of --jobs again whenever it has changed and has the
// pool resized, until stop is called. A file that is gone, or has no number of
// workers for the moment, changes nothing.
func watchJobs(file string, now int, commands chan<- task.Command) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	last, _ := os.Stat(file)
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
			if err != nil || last != nil && os.SameFile(st, last) && st.ModTime().Equal(last.ModTime()) && st.Size() == last.Size() {
				continue
			}
			last = st
			n, _, err := readJobs(file)
			if err != nil || n == now {
				continue
			}
			now = n
			select {
			case commands <- task.Command{Op: task.Resize, N: n}:
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-done }
}
