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

	"crew/runner/decide/task"
)

// Files are those that travel with the tasks of a run. See wiring.Files.
type Files struct {
	Base             []string
	Transfer, Return func(*task.Task) []string // nil for none
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

// read opens a regular file, copies its content, and sets the permissions, size and sum in f. Its path is
// absolute or relative to dir, out of which no symbolic link leads.
func (f *File) read(dir, path string, to io.Writer) (in *os.File, err error) {
	open := os.OpenFile
	if !filepath.IsAbs(path) {
		root, err := os.OpenRoot(cmp.Or(dir, "."))
		if err != nil {
			return nil, err
		}
		defer root.Close()
		open = root.OpenFile
	}
	in, err = open(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // not to wait for the writer of a pipe
	if e, is := errors.AsType[*fs.PathError](err); is {
		e.Op = "open" // it may be openat, of a root
		return nil, err
	}
	info, err := in.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errors.New("it is not a regular file")}
	}
	if err == nil {
		h := sha256.New()
		f.Size, err = io.Copy(io.MultiWriter(h, to), in)
		f.Mode, f.Sum = uint32(info.Mode().Perm()), [sha256.Size]byte(h.Sum(nil))
	}
	if err != nil {
		in.Close()
	}
	return in, err
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
