package wiring

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
	"crew/runner/front/cli"
	"crew/runner/read/input"
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
	case <-time.After(wait):
	}
	select {
	case <-t.done:
		return t.tasks, t.ok
	default: // it may still be counted
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

// copyInput returns the options and the standard input of a run whose tasks are counted
// before it begins, for --halt with a percentage. The input is read twice then, so
// pipes and the like are copied to temporary files.
func (w *wiring) copyInput() (*cli.Options, *os.File, error) {
	o, stdin := *w.opts, w.in
	in := &o.Input
	in.Files, in.Groups = slices.Clone(in.Files), slices.Clone(in.Groups)
	var paths []*string
	for i := range in.Files {
		paths = append(paths, &in.Files[i])
	}
	for i := range in.Groups {
		paths = append(paths, &in.Groups[i].File)
	}
	for _, path := range paths {
		// A file that cannot be opened is left: openSource will report the error.
		if st, err := os.Stat(*path); err != nil || *path == "-" || st.Mode().IsRegular() || st.IsDir() {
			continue
		}
		f, err := os.Open(*path)
		if err != nil {
			continue
		}
		to, err := w.copy(f)
		_ = f.Close()
		if err != nil {
			return nil, nil, err
		}
		if *path = to.Name(); !kernel.Portable {
			*path = fmt.Sprintf("/proc/self/fd/%d", to.Fd())
		}
	}
	if st, err := stdin.Stat(); in.ReadsStdin() && (err != nil || !st.IsDir()) {
		if stdin, err = w.copy(stdin); err != nil {
			return nil, nil, err
		}
	}
	return &o, stdin, nil
}

// copy copies the rest of f to a file that is open until the end of the run. It has no name then,
// unless it takes one to open a file once more.
func (w *wiring) copy(f *os.File) (to *os.File, err error) {
	if kernel.Portable {
		if to, err = os.CreateTemp("", "crew-input-"); err == nil {
			w.onClose(func() { _ = os.Remove(to.Name()) })
		}
	} else {
		to, err = kernel.CreateUnnamed(os.TempDir())
	}
	if err == nil {
		w.close = append(w.close, to.Close)
		_, err = io.Copy(to, f)
	}
	if err == nil {
		_, err = to.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, fmt.Errorf("keep the input in %s, to count its tasks for --halt: %w: set TMPDIR to another directory", os.TempDir(), task.WithoutPath(err))
	}
	return to, nil
}
