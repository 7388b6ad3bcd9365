package wiring

import (
	"fmt"
	"io"
	"os"
	"slices"

	"crew/runner/cli"
	"crew/runner/spool"
	"crew/runner/task"
)

// taskCount counts the tasks of an input before the run, for --halt with a
// percentage. The input is read twice then, so pipes and the like are copied to
// temporary files.
type taskCount struct {
	opts   cli.Options // those of the run; count makes them read the copies
	stdin  *os.File    // that of the run; count makes it the copy
	jobs   int         // of the run
	share  *share      // of the run
	tasks  uint64
	copies []*os.File
}

// count counts the tasks. If the input breaks, it ignores the rest: the run will
// report the error.
func (c *taskCount) count() error {
	if err := c.copyInput(); err != nil {
		return err
	}
	src, err := openSource(&c.opts, c.jobs, c.share, c.stdin)
	if err != nil {
		return err
	}
	defer src.reader.Close()
	next := func() uint64 { return c.tasks + 1 }
	for {
		if _, err := src.tasks.Next(next); err != nil {
			break
		}
		c.tasks++
	}
	if slices.Contains(c.copies, c.stdin) {
		_, err = c.stdin.Seek(0, io.SeekStart)
	}
	return err
}

// copyInput copies what cannot be read twice.
func (c *taskCount) copyInput() (err error) {
	in := &c.opts.Input
	if st, e := c.stdin.Stat(); in.ReadsStdin() && (e != nil || !st.IsDir()) {
		if c.stdin, err = c.copy(c.stdin); err != nil {
			return err
		}
	}
	if in.Files, err = c.copyFiles(in.Files); err != nil {
		return err
	}
	in.Groups = slices.Clone(in.Groups)
	for i := range in.Groups {
		if g := &in.Groups[i]; g.Files {
			if g.Words, err = c.copyFiles(g.Words); err != nil {
				return err
			}
		}
	}
	return nil
}

// copyFiles returns paths with those replaced that are not regular files. It
// ignores a file that cannot be opened: openSource will report the error.
func (c *taskCount) copyFiles(paths []string) ([]string, error) {
	paths = slices.Clone(paths)
	for i, path := range paths {
		st, err := os.Stat(path)
		if path == "-" || err != nil || st.Mode().IsRegular() || st.IsDir() {
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		to, err := c.copy(f)
		f.Close()
		if err != nil {
			return nil, err
		}
		paths[i] = fmt.Sprintf("/proc/self/fd/%d", to.Fd())
	}
	return paths, nil
}

// copy copies the rest of f to an unnamed file.
func (c *taskCount) copy(f *os.File) (*os.File, error) {
	to, err := spool.Unnamed(os.TempDir())
	if err == nil {
		c.copies = append(c.copies, to)
		_, err = io.Copy(to, f)
	}
	if err == nil {
		_, err = to.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, fmt.Errorf("keep the input in %s, to count its tasks for --halt: %w", os.TempDir(), task.WithoutPath(err))
	}
	return to, nil
}

func (c *taskCount) close() {
	for _, f := range c.copies {
		f.Close()
	}
}
