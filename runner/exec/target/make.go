package target

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// out is a target that an attempt makes under a temporary name.
type out struct {
	name       string // as written in the task
	path, temp string // the target and its temporary name, as paths for this process
	dir        *dir
	st         unix.Stat_t // status of the made file
}

// Begin prepares an attempt. If its task makes files under temporary names, Begin chooses the names,
// makes missing directories and removes leftovers. It returns nil, or the result of an attempt that
// cannot start.
func (f *Files) Begin(a task.Attempt) *task.Result {
	if f.DryRun {
		f.pretend(a.Task)
		return nil
	}
	m := a.Task.Makes
	if f.Journal {
		m.Stamp.Inputs = f.settledInputs(a.Task).sum
	}
	temp := f.dirs.newTemp()
	outs, err := f.prepareAll(a.Task, temp)
	if err != nil {
		f.releaseDirs(outs)
		return a.End(task.StartFailed, err, time.Now())
	}
	if len(outs) == 0 {
		return nil
	}
	m.Temp = temp
	if m.Stdout { // the unfinished file must not be readable by more users than the old one
		m.Mode = permissions(outs[len(outs)-1].path)
	}
	f.mu.Lock()
	f.begun[temp] = outs
	f.mu.Unlock()
	return nil
}

// prepareAll prepares the targets that t makes under names that begin with temp. outs holds the targets
// whose directories the caller must release, even after an error.
func (f *Files) prepareAll(t *task.Task, temp string) (outs []out, err error) {
	for _, target := range t.Makes.Targets {
		if !target.Temp {
			continue
		}
		if t.Dir != "" && !t.Makes.Far && outs == nil { // crew does not make the task's working directory
			if err := stat(t.Dir, new(unix.Stat_t)); err != nil {
				return nil, fmt.Errorf("change to directory %s: %w", t.Dir, err)
			}
		}
		o := out{name: target.Path, path: t.PathIn(f.Dir, target.Path)}
		err = f.prepare(&o, temp)
		if o.dir != nil {
			outs = append(outs, o)
		}
		if err != nil {
			break
		}
	}
	return outs, err
}

// prepare makes the directory of a target, sets its temporary name, and checks that the target can be
// made.
func (f *Files) prepare(o *out, temp string) (err error) {
	i := task.BaseIndex(o.path)
	base := o.path[i:]
	if base == "" || base == "." || base == ".." {
		return fmt.Errorf("%q cannot be made: it does not end with a name", o.name)
	}
	if o.dir, err = f.dirs.acquire(dirOf(o.path)); err != nil {
		return err
	}
	o.temp = o.path[:i] + temp + base
	switch err := lstat(o.temp, &o.st); err {
	case unix.ENOENT:
	case unix.ENAMETOOLONG:
		return fmt.Errorf("%s cannot be made: its temporary name, which is %d bytes longer, is too long: shorten its name", o.name, task.TempLen)
	default:
		return &os.PathError{Op: "stat", Path: o.temp, Err: cmp.Or(err, error(unix.EEXIST))}
	}
	if stat(o.path, &o.st) == nil {
		err = f.checkKind(o)
	}
	if err == nil {
		o.dir.clean(dirOf(o.path), base)
	}
	return err
}

// dirOf returns the directory of a path.
func dirOf(path string) string {
	name := path[:task.BaseIndex(path)]
	return cmp.Or(strings.TrimRight(name, "/"), name, ".")
}

// checkKind returns an error if o.st is of a kind that can neither be a target nor be replaced by one.
func (f *Files) checkKind(o *out) error {
	switch format := o.st.Mode & unix.S_IFMT; {
	case format == unix.S_IFREG || format == unix.S_IFLNK || format == unix.S_IFDIR && f.Directories:
		return nil
	case format != unix.S_IFDIR:
		return fmt.Errorf("%s cannot be made: it is a device, a pipe or a socket", o.name)
	}
	return fmt.Errorf("%s is a directory, which only a run on this machine with --state can make", o.name)
}

func isDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// releaseDirs releases the directories of outs.
func (f *Files) releaseDirs(outs []out) {
	for _, o := range outs {
		f.dirs.release(o.dir)
	}
}

// End gives the files that an attempt made their final names if it succeeded, and removes them
// otherwise. If a file is missing or cannot be kept, the attempt counts as failed.
func (f *Files) End(r *task.Result) {
	temp := r.Task.Makes.Temp
	f.mu.Lock()
	outs := f.begun[temp]
	delete(f.begun, temp)
	f.mu.Unlock()
	if !f.DryRun {
		f.finish(outs, r)
	}
	f.releaseDirs(outs)
	if f.Journal && r.Outcome == task.OK {
		r.Task.Makes.Stamp.Since = f.firstChange(r.Task)
	}
}

// finish commits or removes the files of an attempt.
func (f *Files) finish(outs []out, r *task.Result) {
	if r.Outcome == task.OK {
		err := f.commit(r.Task, outs)
		if err == nil {
			return
		}
		r.Outcome, r.Err = task.NoOutput, err
	}
	for _, o := range outs {
		Remove(o.temp)
	}
}

func errNotMade(name string) error { return errors.New(name + " was not made") }

// permissions returns the permissions of a regular file, or 0 if there is none at path.
func permissions(path string) uint32 {
	var st unix.Stat_t
	if stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	return uint32(st.Mode & 0o777)
}

// firstChange returns when the first of the existing targets last changed.
func (f *Files) firstChange(t *task.Task) int64 {
	first := int64(math.MaxInt64)
	for _, target := range t.Makes.Targets {
		if now, why := f.statTarget(t, target.Path); why == "" {
			first = min(first, now.ctime)
		}
	}
	return first
}

// commit gives the made files their final names. It fails if the command did not make one, under its
// temporary name or its final one. After an error, each target is either unchanged or complete.
func (f *Files) commit(t *task.Task, outs []out) error {
	f.dirs.syncs <- struct{}{}
	defer func() { <-f.dirs.syncs }()
	for _, target := range t.Makes.Targets {
		if err := stat(t.PathIn(f.Dir, target.Path), new(unix.Stat_t)); !target.Temp && (err == unix.ENOENT || err == unix.ENOTDIR) {
			return errNotMade(target.Path)
		}
	}
	for i := range outs {
		o := &outs[i]
		err := lstat(o.temp, &o.st)
		switch {
		case err == unix.ENOENT:
			return errNotMade(o.name)
		case err != nil:
			return &os.PathError{Op: "stat", Path: o.temp, Err: err}
		}
		if err := f.checkKind(o); err != nil {
			return err
		}
		if o.st.Mode&unix.S_IFMT == unix.S_IFLNK {
			continue
		}
		if err := kernel.SyncTree(o.temp, isDir(&o.st)); err != nil {
			return &os.PathError{Op: "sync", Path: o.name, Err: err}
		}
	}
	for i := range outs {
		if err := f.rename(&outs[i]); err != nil {
			return &os.PathError{Op: "replace", Path: outs[i].name, Err: err}
		}
	}
	return nil
}

// rename gives a made file its final name and the permissions of the old file. If the target is a
// symbolic link, the file at the end of the links is replaced.
func (f *Files) rename(o *out) error {
	o.path = followLinks(o.path)
	if mode := permissions(o.path); mode != 0 && o.st.Mode&unix.S_IFMT == unix.S_IFREG && mode != uint32(o.st.Mode&0o777) {
		if err := unix.Chmod(o.temp, mode); err != nil {
			return err
		}
	}
	err := kernel.IgnoreEINTR(func() error { return unix.Rename(o.temp, o.path) })
	switch {
	case err == unix.EXDEV && o.st.Mode&unix.S_IFMT == unix.S_IFREG:
		return f.copyAcross(o)
	case isDir(&o.st) && (err == unix.ENOTEMPTY || err == unix.EEXIST):
		return f.exchange(o)
	case err == nil && !isDir(&o.st) && o.st.Nlink > 1:
		Remove(o.temp) // rename(2) does nothing if both names are links to the same file
	}
	return err
}

// maxLinks is how many links in a row followLinks follows; Linux follows as many.
const maxLinks = 40

// followLinks follows symbolic links from path on, and returns the first path that is not a link. It
// need not exist.
func followLinks(path string) string {
	for range maxLinks {
		to, err := os.Readlink(path)
		switch {
		case err != nil:
			return path
		case to[0] != '/':
			to = path[:task.BaseIndex(path)] + to
		}
		path = to
	}
	return path
}

// copyAcross copies a made file to another file system, to which a link leads, and renames the copy
// there.
func (f *Files) copyAcross(o *out) error {
	d, err := f.dirs.acquire(dirOf(o.path))
	if err != nil {
		return err
	}
	defer f.dirs.release(d)
	there := out{path: o.path, temp: f.tempBeside(o.path), st: o.st}
	defer Remove(there.temp)
	from, err := os.Open(o.temp)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(there.temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	err = cmp.Or(err, to.Chmod(os.FileMode(o.st.Mode&0o777)), to.Sync(), to.Close())
	if err == nil {
		err = f.rename(&there)
	}
	Remove(o.temp)
	return err
}

// tempBeside returns a temporary name in the directory of a file.
func (f *Files) tempBeside(path string) string {
	i := task.BaseIndex(path)
	return path[:i] + f.dirs.newTemp() + path[i:]
}

// exchange replaces a directory by the made one, and removes the old one.
func (f *Files) exchange(o *out) error {
	old := o.temp
	err := kernel.Exchange(o.temp, o.path)
	if err == unix.EINVAL || errors.Is(err, errors.ErrUnsupported) {
		old, err = f.swap(o)
	}
	if err == nil {
		Remove(old)
	}
	return err
}

// swap does the work of exchange on a file system that cannot exchange names. Between its two renames
// nothing has the final name. It returns the name of the old directory, which the caller must remove.
func (f *Files) swap(o *out) (old string, err error) {
	old = f.tempBeside(o.path)
	if err = unix.Rename(o.path, old); err != nil {
		return "", err
	}
	if err = unix.Rename(o.temp, o.path); err != nil {
		return "", cmp.Or(unix.Rename(old, o.path), err)
	}
	return old, nil
}
