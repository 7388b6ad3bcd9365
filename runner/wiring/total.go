package wiring

import (
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"crew/runner/cli"
	"crew/runner/input"
)

// total counts the tasks of the input beside the run, or before it, if somebody asks for
// their number.
type total struct {
	source *source
	stdin  *os.File
	from   int64 // where the run begins to read stdin; -1 if it cannot be read twice

	once sync.Once
	stop atomic.Bool
	done chan struct{}

	// set before done is closed

	tasks int64
	ok    bool
}

// newTotal returns the total of what a run is about to read. The source is still to
// be set.
func newTotal(o *cli.Options, stdin *os.File) *total {
	t := &total{stdin: stdin, from: -1, done: make(chan struct{})}
	if o.Input.ReadsStdin() {
		if at, err := stdin.Seek(0, io.SeekCurrent); err == nil {
			t.from = at
		}
	}
	return t
}

// set sets the number of tasks, which need not be counted.
func (t *total) set(n uint64) {
	t.once.Do(func() {
		t.tasks, t.ok = int64(n), true
		close(t.done)
	})
}

// forever is a time to wait that does not end.
const forever = math.MaxInt64

// get returns the number of tasks if it is known within wait. The first call begins
// to count.
func (t *total) get(wait time.Duration) (int64, bool) {
	t.once.Do(func() { go t.count() })
	select {
	case <-t.done:
		return t.tasks, t.ok
	default:
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case <-t.done:
		return t.tasks, t.ok
	case <-late.C:
		return 0, false
	}
}

func (t *total) count() {
	defer close(t.done)
	cfg := t.source.input
	if t.source.opts.Fed() {
		return
	}
	if t.source.opts.Input.ReadsStdin() {
		if st, err := t.stdin.Stat(); t.from < 0 || err != nil || !st.Mode().IsRegular() {
			return
		}
		cfg.Stdin = io.NewSectionReader(t.stdin, t.from, math.MaxInt64-t.from)
	}
	if t.source.opts.Pipe.On {
		t.tasks, t.ok = input.CountBlocks(t.source.blocksConfig(t.stdin), &t.stop)
		return
	}
	t.tasks, t.ok = input.Count(cfg, t.source.config, &t.stop)
}

// close ends the count, if there is one.
func (t *total) close() {
	t.stop.Store(true)
	t.once.Do(func() { close(t.done) })
	<-t.done
}
