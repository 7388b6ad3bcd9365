// Package travel moves files and other long data between submitters and workers over NATS. The owner
// keeps the data, and a process that needs it requests it piece by piece.
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

// Files names the files that travel with the tasks of a run.
type Files struct {
	Base             []string
	Transfer, Return func(*task.Task) []string // nil for none
}

// File is a file that travels.
type File struct {
	Path string
	Mode uint32 // permission bits
	Base bool   // all tasks of the run use it
	Made bool   // it was made under a temporary name; Path is its final name
	Sum  [sha256.Size]byte
	Blob
}

// errChanged is returned if the content of a file is not what its owner announced.
var errChanged = errors.New("it was changed during the run")

// fetch writes a file of a user to path, either completely or not at all. path is absolute or relative
// to dir; symbolic links cannot lead out of dir.
func (b *Blobs) fetch(ctx context.Context, user string, f File, dir, path string) error {
	root, path, err := openParent(dir, path)
	if err != nil {
		return err
	}
	defer root.Close()
	part := path
	if !f.Made { // otherwise the name is a temporary one already
		part = filepath.Join(filepath.Dir(path), ".crew."+rand.Text())
	}
	w, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	h := sha256.New()
	err = b.Pull(ctx, user, f.Blob, 0, io.MultiWriter(w, h))
	if err == nil && [sha256.Size]byte(h.Sum(nil)) != f.Sum {
		err = errChanged
	}
	if err = errors.Join(err, w.Chmod(os.FileMode(f.Mode).Perm()), w.Close()); err == nil {
		err = root.Rename(part, path)
	}
	if err != nil {
		_ = root.Remove(part)
	}
	return err
}

// destination returns where a file that is sent as path belongs: below the working directory, or at
// path if that is absolute. As with rsync, the part before /./ is dropped.
func destination(path string) string {
	_, path = splitDot(path)
	return filepath.Clean(path)
}

// splitDot returns the parts of path before and after /./. dir is "" if there is no /./ in path.
func splitDot(path string) (dir, rest string) {
	if i := strings.Index(path, "/./"); i >= 0 {
		return path[:i+1], path[i+3:]
	}
	return "", path
}

// checkLocal returns an error if a path is relative and leads out of the working directory.
func checkLocal(path string) error {
	if !filepath.IsAbs(path) && !filepath.IsLocal(path) || strings.ContainsRune(path, 0) {
		return fmt.Errorf("%q is not below the working directory: give it an absolute path", path)
	}
	return nil
}

// read opens a regular file, copies its content to a writer, and sets the permissions, size and sum in
// f. path is absolute or relative to dir; symbolic links cannot lead out of dir.
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
	in, err = open(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // do not wait for the writer of a pipe
	if e, is := errors.AsType[*fs.PathError](err); is {
		e.Op = "open" // it is openat for a file in a root
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

// openParent creates the directory of a file whose name is absolute or relative to dir. It returns a
// root and the file's path in it. Symbolic links cannot lead out of the root.
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

// resolve returns path itself if it is absolute, and otherwise path joined to dir.
func resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
