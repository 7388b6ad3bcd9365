package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"crew/runner/spool"
)

// taskCount counts the tasks of an input before the run, which a --halt with a
// share of them has to know. The run then reads the input once more, so what can
// be read only once (a pipe, a terminal) is copied to temporary files first, which
// close closes.
type taskCount struct {
	opts   Options  // those of the run, but with files that can be read twice
	stdin  *os.File // at its beginning
	tasks  uint64
	copies []*os.File
	again  bool // stdin has to go back to its beginning
}

// count counts. An input that breaks has the tasks before that; the run will say
// what is wrong with it.
func (c *taskCount) count() error {
	if err := c.keepInput(); err != nil {
		return err
	}
	src, err := openSource(&c.opts, c.stdin)
	if err != nil {
		return err
	}
	defer src.reader.Close()
	number := func() uint64 { return c.tasks + 1 }
	for {
		if _, err := src.tasks.Next(number); err != nil {
			break
		}
		c.tasks++
	}
	if c.again {
		_, err = c.stdin.Seek(0, io.SeekStart)
	}
	return err
}

// keepInput copies what cannot be read twice.
func (c *taskCount) keepInput() (err error) {
	in := &c.opts.Input
	if st, e := c.stdin.Stat(); readsStdin(*in) && (e != nil || !st.IsDir()) {
		if c.stdin, err = c.keep(c.stdin); err != nil {
			return err
		}
		c.again = true
	}
	if in.Files, err = c.keepFiles(in.Files); err != nil {
		return err
	}
	in.Groups = slices.Clone(in.Groups)
	for i, g := range in.Groups {
		if g.Files {
			if in.Groups[i].Words, err = c.keepFiles(g.Words); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepFiles is paths with copies in the place of what is no ordinary file. What
// cannot be opened is left to whoever opens them all.
func (c *taskCount) keepFiles(paths []string) ([]string, error) {
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
		kept, err := c.keep(f)
		f.Close()
		if err != nil {
			return nil, err
		}
		paths[i] = fmt.Sprintf("/proc/self/fd/%d", kept.Fd())
	}
	return paths, nil
}

// keep copies what is left of f into a file that has no name.
func (c *taskCount) keep(f *os.File) (*os.File, error) {
	kept, err := spool.Unnamed(os.TempDir())
	if err == nil {
		c.copies = append(c.copies, kept)
		_, err = io.Copy(kept, f)
	}
	if err == nil {
		_, err = kept.Seek(0, io.SeekStart)
	}
	if err != nil {
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err
		}
		return nil, fmt.Errorf("keep the input in %s, to count its tasks for --halt: %w", os.TempDir(), err)
	}
	return kept, nil
}

// close closes the copies.
func (c *taskCount) close() {
	for _, f := range c.copies {
		f.Close()
	}
}
