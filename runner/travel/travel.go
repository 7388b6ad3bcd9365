// Package travel moves files, and whatever else is long, between submitters and workers over NATS: who has
// it keeps it, and who needs it asks for it, piece by piece.
package travel

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"crew/runner/task"
)

// Files are those that travel with the tasks of a run. See wiring.Files.
type Files struct {
	Base             []string
	Transfer, Return func(*task.Task) []string // nil for none
	Cleanup          bool
}

// File is a file that travels.
type File struct {
	Path string
	Mode uint32 // its permissions
	Base bool   // it serves all tasks of the run
	Made bool   // it was made under a temporary name; Path is its final one
	Sum  [sha256.Size]byte
	Blob
}

// ErrChanged is the error of a file whose content is not what its owner has said.
var ErrChanged = errors.New("it was changed while it was needed")

func sumOf(r io.Reader) ([sha256.Size]byte, int64, error) {
	h := sha256.New()
	n, err := io.Copy(h, r)
	return [sha256.Size]byte(h.Sum(nil)), n, err
}

// fetch has a file of a user's be at a path, which is absolute or relative to dir, as a whole or not at
// all. No symbolic link leads out of dir.
func (b *Blobs) fetch(ctx context.Context, user string, f File, dir, path string) error {
	root, path, err := openParent(dir, path)
	if err != nil {
		return err
	}
	defer root.Close()
	part := path
	if !f.Made { // or else the name is temporary
		part = filepath.Join(filepath.Dir(path), ".crew."+rand.Text())
	}
	w, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	h := sha256.New()
	err = b.Pull(ctx, user, f.Blob, 0, io.MultiWriter(w, h))
	if err == nil && [sha256.Size]byte(h.Sum(nil)) != f.Sum {
		err = ErrChanged
	}
	if err = errors.Join(err, w.Chmod(os.FileMode(f.Mode).Perm()), w.Close()); err == nil {
		err = root.Rename(part, path)
	}
	if err != nil {
		_ = root.Remove(part)
	}
	return err
}

// is reports whether a file with the same content and permissions is at path, as openRegular
// has it. It may be the very file, where the submitter is on this machine or both see the same
// disk.
func (f *File) is(dir, path string) bool {
	in, mode, err := openRegular(dir, path)
	if err != nil {
		return false
	}
	defer in.Close()
	sum, _, err := sumOf(in)
	return err == nil && mode == f.Mode && sum == f.Sum
}

// inside returns where a file belongs that is sent as path: below the working
// directory, or at path if that is absolute. As with rsync, what is before /./ is not
// part of the way there.
func inside(path string) string {
	_, path = split(path)
	return filepath.Clean(path)
}

// split returns what is before /./ and after it. The first is "" without one.
func split(path string) (dir, rest string) {
	if i := strings.Index(path, "/./"); i >= 0 {
		return path[:i+1], path[i+3:]
	}
	return "", path
}

// local returns an error if a path leads out of the working directory without being absolute.
func local(path string) error {
	if !filepath.IsAbs(path) && !filepath.IsLocal(path) || strings.ContainsRune(path, 0) {
		return fmt.Errorf("%q is no file below the working directory: give it an absolute path", path)
	}
	return nil
}

// openRegular opens a file to read it and returns its permissions. Its path is absolute or
// relative to dir, out of which no symbolic link leads.
func openRegular(dir, path string) (*os.File, uint32, error) {
	open := os.OpenFile
	if !filepath.IsAbs(path) {
		root, err := os.OpenRoot(cmp.Or(dir, "."))
		if err != nil {
			return nil, 0, err
		}
		defer root.Close()
		open = root.OpenFile
	}
	f, err := open(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // not to wait for the writer of a pipe
	if e, is := errors.AsType[*fs.PathError](err); is {
		e.Op = "open" // it may be openat, of a root
	}
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is not a regular file")}
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, uint32(info.Mode().Perm()), nil
}

// openParent makes the directory of a path, which is absolute or relative to dir. It returns
// the path below a root out of which no symbolic link leads.
func openParent(dir, name string) (root *os.Root, rest string, err error) {
	if filepath.IsAbs(name) {
		dir, name = filepath.Split(name)
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, "", err
		}
	}
	if root, err = os.OpenRoot(cmp.Or(dir, ".")); err != nil {
		return nil, "", err
	}
	if err = root.MkdirAll(filepath.Dir(name), 0o777); err != nil {
		root.Close()
		return nil, "", err
	}
	return root, name, nil
}

// below returns a path, which is relative to dir or absolute, as this process sees it.
func below(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
