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

// total counts the tasks of the input in the background, or before the run, once their number is needed.
type total struct {
	source *source
	stdin  *os.File
	start  int64 // offset at which the run starts to read stdin; -1 if stdin cannot be read twice

	once sync.Once
	stop atomic.Bool
	done chan struct{}

	// set before done is closed

	tasks int64
	known bool
}

// newTotal returns the total for the input that the run is about to read. The caller sets the source.
func newTotal(o *cli.Options, stdin *os.File) *total {
	t := &total{stdin: stdin, start: -1, done: make(chan struct{})}
	if o.Input.ReadsStdin() {
		if at, err := stdin.Seek(0, io.SeekCurrent); err == nil {
			t.start = at
		}
	}
	return t
}

// set sets the number of tasks, so that it is not counted.
func (t *total) set(n uint64) {
	t.once.Do(func() {
		t.tasks, t.known = int64(n), true
		close(t.done)
	})
}

// forever is a wait without a limit.
const forever = math.MaxInt64

// get returns the number of tasks if it is known within wait. The first call starts the count.
func (t *total) get(wait time.Duration) (int64, bool) {
	t.once.Do(func() { go t.count() })
	select {
	case <-t.done:
	case <-time.After(wait):
	}
	select {
	case <-t.done:
		return t.tasks, t.known
	default: // still counting
		return 0, false
	}
}

func (t *total) count() {
	defer close(t.done)
	s := t.source
	cfg := s.input
	if s.opts.Fed() {
		return
	}
	if s.opts.Input.ReadsStdin() {
		if st, err := t.stdin.Stat(); t.start < 0 || err != nil || !st.Mode().IsRegular() {
			return
		}
		cfg.Stdin = io.NewSectionReader(t.stdin, t.start, math.MaxInt64-t.start)
	}
	if s.opts.Pipe.On {
		t.tasks, t.known = input.CountBlocks(s.blocksConfig(t.stdin), &t.stop)
	} else {
		t.tasks, t.known = input.Count(cfg, s.config, &t.stop)
	}
}

// close stops the count, if it was started.
func (t *total) close() {
	t.stop.Store(true)
	t.once.Do(func() { close(t.done) })
	<-t.done
}

// copyInput returns options and a standard input that can be read twice, for a run with a percentage in
// --halt, which counts its tasks before it starts. It copies pipes and the like to temporary files.
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
		// Skip a file that cannot be opened: openSource will report the error.
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

// copy copies the rest of f to a temporary file that stays open until the end of the run. The file has no
// name, except on systems that can reopen a file only by its name.
func (w *wiring) copy(f *os.File) (to *os.File, err error) {
	if kernel.Portable {
		if to, err = os.CreateTemp("", "crew-input-"); err == nil {
			w.onClose(func() { _ = os.Remove(to.Name()) })
		}
	} else {
		to, err = kernel.CreateUnnamed(os.TempDir())
	}
	if err == nil {
		w.onEnd(to.Close)
		_, err = io.Copy(to, f)
	}
	if err == nil {
		_, err = to.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, fmt.Errorf("copy the input to %s, to count its tasks for --halt: %w: set TMPDIR to another directory", os.TempDir(), task.WithoutPath(err))
	}
	return to, nil
}
