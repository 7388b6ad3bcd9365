package trust

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
)

// Whole is a file that takes its name when it is complete: until then it has a temporary
// name in the same directory.
type Whole struct {
	*os.File        // nil once it is complete or dropped
	Path     string // the name that it takes
}

// CreateWhole begins a file. If path is a symbolic link, the file that it names is
// replaced. The caller must call Drop in the end. Errors do not name the file, but for an
// Error.
func CreateWhole(path string) (*Whole, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file: name one that can be replaced as a whole")
	}
	target, err := Resolve(path)
	var f *os.File
	if err == nil {
		f, err = OpenFile(fmt.Sprintf("%s.%08x.tmp", target, rand.Uint32()), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	}
	if why, ok := errors.AsType[*os.PathError](err); ok {
		err = fmt.Errorf("%w: name a file in a directory that you can write to", why.Err)
	}
	if err != nil {
		return nil, err
	}
	return &Whole{f, target}, nil
}

// Complete puts the file in place of the old one, if there is one. After an error the old
// one is still there.
func (w *Whole) Complete() error {
	if err := os.Rename(w.Name(), w.Path); err != nil {
		return err
	}
	err := w.Close()
	w.File = nil
	return err
}

// Drop removes the file unless it is complete. It may be repeated.
func (w *Whole) Drop() {
	if w.File != nil {
		w.Close()
		os.Remove(w.Name())
		w.File = nil
	}
}
