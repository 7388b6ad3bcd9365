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
	if in.Files, err = w.copyFiles(in.Files); err != nil {
		return nil, nil, err
	}
	in.Groups = slices.Clone(in.Groups)
	for i := range in.Groups {
		if g := &in.Groups[i]; g.Files {
			if g.Words, err = w.copyFiles(g.Words); err != nil {
				return nil, nil, err
			}
		}
	}
	return &o, stdin, nil
}

// copyFiles returns paths with those replaced that are not regular files. It
// ignores a file that cannot be opened: openSource will report the error.
func (w *wiring) copyFiles(paths []string) ([]string, error) {
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
		to, err := w.copy(f)
		f.Close()
		if err != nil {
			return nil, err
		}
		paths[i] = fmt.Sprintf("/proc/self/fd/%d", to.Fd())
	}
	return paths, nil
}

// copy copies the rest of f to an unnamed file, which is open until the end of the run.
func (w *wiring) copy(f *os.File) (*os.File, error) {
	to, err := spool.Unnamed(os.TempDir())
	if err == nil {
		w.close = append(w.close, to.Close)
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
