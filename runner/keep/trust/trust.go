// Package trust decides whether a path can be trusted, that is, whether another user could have chosen
// the file that crew reads, runs or overwrites there. Files that crew relies on, for instance those of
// a journal, must belong to the user (CheckOwner). Files that crew only writes may be anywhere, but
// crew does not follow another user's symbolic link to them (Resolve).
package trust

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
)

// maxLinks limits the symbolic links in a path, as in path_resolution(7).
const maxLinks = 40

// Error says why a path is not trusted, and what the user can do about it.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

// CheckOwner returns an *Error unless the file or directory at path, whose status is st, belongs to the
// user and only the user can write to it.
func CheckOwner(path string, st *unix.Stat_t) error {
	switch format := st.Mode & unix.S_IFMT; {
	case format == unix.S_IFLNK:
		return &Error{path + " is a symbolic link: remove it, or give another directory"}
	case format != unix.S_IFREG && format != unix.S_IFDIR:
		return &Error{path + " is not a regular file: remove it, or give another directory"}
	case st.Uid != uint32(os.Geteuid()):
		return &Error{fmt.Sprintf("%s belongs to another user (%d): give a directory of your own", path, st.Uid)}
	case st.Mode&0o022 != 0:
		return &Error{fmt.Sprintf("others may write to %s: run chmod -R go-w on it, or give another directory", path)}
	}
	return nil
}

// MakeDir makes a directory that only the user can access, and its parents, unless it exists. The error
// is an *Error if the directory exists and fails CheckOwner.
func MakeDir(path string) error {
	real, err := Resolve(path)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(real), 0o777)
	}
	if err != nil {
		return err
	}
	if err := os.Mkdir(real, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(real, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return &os.PathError{Op: "open", Path: path, Err: unix.ENOTDIR}
	}
	return CheckOwner(path, &st)
}

// OpenOwn is os.OpenFile for a regular file in a directory made by MakeDir. If the file fails
// CheckOwner, the error is an *Error, and the file is not truncated.
func OpenOwn(path string, flags int, perm fs.FileMode) (*os.File, error) {
	dir, err := Resolve(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	real := filepath.Join(dir, filepath.Base(path))
	fd, err := open(real, flags&^os.O_TRUNC, perm)
	if err != nil {
		if unix.Lstat(real, &st) == nil && CheckOwner(path, &st) != nil {
			return nil, CheckOwner(path, &st)
		}
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	if err = unix.Fstat(fd, &st); err == nil {
		err = CheckOwner(path, &st)
	}
	if err == nil && flags&os.O_TRUNC != 0 {
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// WritePrivate replaces a file that only its user can read. The file is durable when WritePrivate
// returns.
func WritePrivate(path string, text []byte) error {
	f, err := OpenOwn(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = kernel.SyncDir(filepath.Dir(path))
	}
	return err
}

// OpenFile is os.OpenFile for any file that crew only writes. See Open.
func OpenFile(path string, flags int, perm fs.FileMode) (*os.File, error) {
	fd, err := Open(path, flags, perm)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Open is like OpenFile, but returns a descriptor. The error is an *Error if there is a link in the
// path that must not be followed.
func Open(path string, flags int, perm fs.FileMode) (fd int, err error) {
	real, magic, err := resolve(path)
	if err != nil {
		return -1, err
	}
	if strings.HasSuffix(path, "/") {
		real += "/" // only a directory has such a path
	}
	if magic {
		fd, err = openat(unix.AT_FDCWD, real, flags, perm)
	} else {
		fd, err = open(real, flags, perm)
	}
	if err != nil {
		err = &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, err
}

// open opens a file whose path contains no symbolic links, by opening one directory after another. It
// fails if another user puts a link there meanwhile.
func open(path string, flags int, perm fs.FileMode) (fd int, err error) {
	dir, base := filepath.Split(path)
	names := strings.FieldsFunc(dir, func(r rune) bool { return r == '/' })
	if filepath.IsAbs(path) {
		names = append([]string{"/"}, names...)
	}
	at := unix.AT_FDCWD
	for i := 0; i <= len(names) && err == nil; i++ {
		if i < len(names) {
			fd, err = openat(at, names[i], kernel.SearchDir|unix.O_NOFOLLOW, 0)
		} else {
			fd, err = openat(at, cmp.Or(base, "."), flags|unix.O_NOFOLLOW, perm)
		}
		if at != unix.AT_FDCWD {
			_ = unix.Close(at)
		}
		at = fd
	}
	return fd, err
}

func openat(dir int, name string, flags int, perm fs.FileMode) (fd int, err error) {
	err = kernel.IgnoreEINTR(func() (err error) {
		fd, err = unix.Openat(dir, name, flags|unix.O_CLOEXEC, uint32(perm))
		return err
	})
	return fd, err
}

// Resolve returns a path to the same file without symbolic links. Elements that do not exist are kept.
// The error is an *Error if a link must not be followed because another user may have made it: it
// belongs to another user and is in a directory that others than this user and root may write to. (With
// fs.protected_symlinks the kernel does the same, but only in directories with the sticky bit;
// proc_sys_fs(5).)
func Resolve(path string) (string, error) {
	real, _, err := resolve(path)
	return real, err
}

// resolve is Resolve. If magic is true, the path contains a link of proc(5), which only the kernel can
// follow; real keeps the rest of the path from there on.
func resolve(path string) (real string, magic bool, err error) {
	rest, links := path, 0
	if filepath.IsAbs(path) {
		real = "/"
	}
	for rest != "" {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		next := filepath.Join(real, name)
		var st, parent unix.Stat_t
		if err := unix.Lstat(next, &st); name == "" || err != nil || st.Mode&unix.S_IFMT != unix.S_IFLNK {
			if next != "." || name == ".." {
				real = next
			}
			continue
		}
		dir := filepath.Dir(next)
		if links++; links > maxLinks {
			return "", false, &os.PathError{Op: "open", Path: path, Err: unix.ELOOP}
		}
		if kernel.IsProc(dir) {
			return filepath.Join(next, rest), true, nil
		}
		if err := unix.Lstat(dir, &parent); err != nil {
			return "", false, &os.PathError{Op: "stat", Path: dir, Err: err}
		}
		if !trusted(st.Uid) && (!trusted(parent.Uid) || parent.Mode&0o022 != 0) {
			return "", false, &Error{fmt.Sprintf("%s is a symbolic link of another user (%d), in a directory where others may write: give another path",
				next, st.Uid)}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", false, err
		}
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = target + "/" + rest
	}
	return cmp.Or(real, "."), false, nil
}

// trusted reports whether a user can do anything that this user can. In a user namespace without root,
// root's files have the owner of the root directory.
func trusted(uid uint32) bool {
	var root unix.Stat_t
	return uid == uint32(os.Geteuid()) || uid == 0 || unix.Lstat("/", &root) == nil && uid == root.Uid
}

// AtomicFile is a file that gets its name when it is complete. Until then it has a temporary name in
// the same directory.
type AtomicFile struct {
	*os.File        // nil once it is committed or dropped
	Path     string // the final name
}

// CreateAtomic creates a file that will replace path. If path is a symbolic link, its target will be
// replaced. The caller must call Drop in the end, even after Commit. Only an *Error contains the name of
// the file.
func CreateAtomic(path string) (*AtomicFile, error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return nil, errors.New("not a regular file: name a file that can be replaced")
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
	return &AtomicFile{f, target}, nil
}

// Commit gives the file its name, replacing an existing file. After an error the existing file is
// unchanged.
func (w *AtomicFile) Commit() error {
	err := w.Close() // it may report that the file was not written
	if err == nil {
		err = os.Rename(w.Name(), w.Path)
	}
	if err == nil {
		w.File = nil
	}
	return err
}

// Drop removes the file unless it was committed. It may be called more than once.
func (w *AtomicFile) Drop() {
	if w.File != nil {
		w.Close()
		os.Remove(w.Name())
		w.File = nil
	}
}
