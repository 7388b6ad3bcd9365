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

	"crew/runner/cli"
	"crew/runner/input"
	"crew/runner/kernel"
	"crew/runner/task"
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

// copyInput returns the options and the standard input of a run whose tasks are counted
// before it begins, for --halt with a percentage. The input is read twice then, so
// pipes and the like are copied to temporary files.
func (w *wiring) copyInput() (*cli.Options, *os.File, error) {
	o, stdin := *w.opts, w.in
	in := &o.Input
	var err error
	if st, e := stdin.Stat(); in.ReadsStdin() && (e != nil || !st.IsDir()) {
		if stdin, err = w.copy(stdin); err != nil {
			return nil, nil, err
		}
	}
	in.Files = slices.Clone(in.Files)
	for i := range in.Files {
		if in.Files[i], err = w.copyFile(in.Files[i]); err != nil {
			return nil, nil, err
		}
	}
	in.Groups = slices.Clone(in.Groups)
	for i := range in.Groups {
		if g := &in.Groups[i]; g.File != "" {
			if g.File, err = w.copyFile(g.File); err != nil {
				return nil, nil, err
			}
		}
	}
	return &o, stdin, nil
}

// copyFile returns the path of a copy of a file that is no regular one. It leaves a file that
// cannot be opened: openSource will report the error.
func (w *wiring) copyFile(path string) (string, error) {
	st, err := os.Stat(path)
	if path == "-" || err != nil || st.Mode().IsRegular() || st.IsDir() {
		return path, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return path, nil
	}
	defer f.Close()
	to, err := w.copy(f)
	switch {
	case err != nil:
		return "", err
	case kernel.Portable:
		return to.Name(), nil
	}
	return fmt.Sprintf("/proc/self/fd/%d", to.Fd()), nil
}

// named creates a file that exists until the end of the run.
func (w *wiring) named(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, "crew-input-")
	if err == nil {
		w.onClose(func() { _ = os.Remove(f.Name()) })
	}
	return f, err
}

// copy copies the rest of f to a file that is open until the end of the run. It has no name,
// unless it takes one to open a file once more.
func (w *wiring) copy(f *os.File) (*os.File, error) {
	create := kernel.Unnamed
	if kernel.Portable {
		create = w.named
	}
	to, err := create(os.TempDir())
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
