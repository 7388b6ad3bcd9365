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

// inputCopies are the options and the standard input of a run whose tasks are counted
// before it begins, for --halt with a percentage. The input is read twice then, so
// pipes and the like are copied to temporary files.
type inputCopies struct {
	opts  cli.Options
	stdin *os.File
	files []*os.File
}

// copyInput copies what cannot be read twice.
func (c *inputCopies) copyInput() (err error) {
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
func (c *inputCopies) copyFiles(paths []string) ([]string, error) {
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
func (c *inputCopies) copy(f *os.File) (*os.File, error) {
	to, err := spool.Unnamed(os.TempDir())
	if err == nil {
		c.files = append(c.files, to)
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

func (c *inputCopies) close() {
	for _, f := range c.files {
		f.Close()
	}
}
