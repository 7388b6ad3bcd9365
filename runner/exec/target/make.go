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
	name       string // as the task has it
	path, temp string // as this process has the target and its temporary name
	dir        *dir
	st         unix.Stat_t // of what was made
}

// Begin prepares an attempt. If its task makes files under temporary names, it chooses
// these, makes missing directories and removes leftovers. It returns nil, or the result
// of an attempt that cannot start.
func (f *Files) Begin(a task.Attempt) *task.Result {
	if f.DryRun {
		f.pretend(a.Task)
		return nil
	}
	m := a.Task.Makes
	if f.Journal {
		m.Stamp.Inputs = f.settled(a.Task).sum
	}
	temp := f.dirs.newTemp()
	outs, err := f.open(a.Task, temp)
	if err != nil {
		f.leave(outs)
		now := time.Now()
		return &task.Result{
			Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Host: a.Slot.Host, Units: a.Units, Argv: a.Argv(),
			Outcome: task.StartFailed, Code: 126, Err: err, Start: now, End: now,
		}
	}
	if len(outs) == 0 {
		return nil
	}
	m.Temp = temp
	if m.Stdout { // nobody may read meanwhile what is for few
		m.Mode = permissions(outs[len(outs)-1].path)
	}
	f.mu.Lock()
	f.works[temp] = outs
	f.mu.Unlock()
	return nil
}

// open prepares the targets that t makes under names that begin with temp. After an error, outs are
// those up to the one that it concerns.
func (f *Files) open(t *task.Task, temp string) (outs []out, err error) {
	for _, target := range t.Makes.Targets {
		if !target.Temp {
			continue
		}
		if t.Dir != "" && !t.Makes.Far && outs == nil { // it is not for crew to make it
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

// prepare prepares a target.
func (f *Files) prepare(o *out, temp string) (err error) {
	i := task.BaseIndex(o.path)
	base := o.path[i:]
	if base == "" || base == "." || base == ".." {
		return fmt.Errorf("%q cannot be made: it does not end with a name", o.name)
	}
	if o.dir, err = f.dirs.use(where(o.path)); err != nil {
		return err
	}
	o.temp = o.path[:i] + temp + base
	switch err := lstat(o.temp, &o.st); err {
	case unix.ENOENT:
	case unix.ENAMETOOLONG:
		return fmt.Errorf("%s cannot be made: its name is too long, as a temporary one has %d bytes more", o.name, task.TempLen)
	default:
		return &os.PathError{Op: "stat", Path: o.temp, Err: cmp.Or(err, error(unix.EEXIST))}
	}
	if stat(o.path, &o.st) == nil {
		err = f.allowed(o)
	}
	if err == nil {
		o.dir.clean(where(o.path), base)
	}
	return err
}

// where returns the directory of a path.
func where(path string) string {
	name := path[:task.BaseIndex(path)]
	return cmp.Or(strings.TrimRight(name, "/"), name, ".")
}

// allowed returns an error if what is there can neither be a target nor be replaced by one.
func (f *Files) allowed(o *out) error {
	switch format := o.st.Mode & unix.S_IFMT; {
	case format == unix.S_IFREG || format == unix.S_IFLNK || format == unix.S_IFDIR && f.Directories:
		return nil
	case format != unix.S_IFDIR:
		return fmt.Errorf("%s cannot be made: it is a device, a pipe or a socket", o.name)
	case f.Journal:
		return fmt.Errorf("%s is a directory, which only a run on this machine can make", o.name)
	}
	return fmt.Errorf("%s is a directory, and nothing tells whether it is whole: add --state DIR, whose journal does", o.name)
}

func isDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

// leave ends the use of the directories.
func (f *Files) leave(outs []out) {
	for _, o := range outs {
		f.dirs.leave(o.dir)
	}
}

// End gives what an attempt has made its final names if that has succeeded, and removes it
// otherwise. If it cannot be kept, or is not there, the attempt has failed.
func (f *Files) End(r *task.Result) {
	temp := r.Task.Makes.Temp
	f.mu.Lock()
	outs := f.works[temp]
	delete(f.works, temp)
	f.mu.Unlock()
	if !f.DryRun {
		f.finish(outs, r)
	}
	f.leave(outs)
	if f.Journal && r.Outcome == task.OK {
		r.Task.Makes.Stamp.Since = f.since(r.Task)
	}
}

// finish ends what Begin began.
func (f *Files) finish(outs []out, r *task.Result) {
	if r.Outcome == task.OK {
		err := f.lacks(r.Task)
		if err == nil {
			err = f.keep(outs)
		}
		if err == nil {
			return
		}
		r.Outcome, r.Err = task.NoOutput, err
	}
	for _, o := range outs {
		Remove(o.temp)
	}
}

// lacks returns an error if a file is missing that the command of a task makes under its own name.
func (f *Files) lacks(t *task.Task) error {
	for _, target := range t.Makes.Targets {
		if err := stat(t.PathIn(f.Dir, target.Path), new(unix.Stat_t)); !target.Temp && (err == unix.ENOENT || err == unix.ENOTDIR) {
			return wasNotMade(target.Path)
		}
	}
	return nil
}

func wasNotMade(name string) error { return errors.New(name + " was not made") }

// permissions returns those of the file that has a name, or 0.
func permissions(path string) uint32 {
	var st unix.Stat_t
	if stat(path, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0
	}
	return uint32(st.Mode & 0o777)
}

// since returns when the first of the targets that are there last changed.
func (f *Files) since(t *task.Task) int64 {
	first := int64(math.MaxInt64)
	for _, target := range t.Makes.Targets {
		if now, why := f.target(t, target.Path); why == "" {
			first = min(first, now.ctime)
		}
	}
	return first
}

// keep gives what was made its final names. After an error, each is as it was, or whole.
func (f *Files) keep(outs []out) error {
	for i := range outs {
		o := &outs[i]
		err := lstat(o.temp, &o.st)
		switch {
		case err == unix.ENOENT:
			return wasNotMade(o.name)
		case err != nil:
			return &os.PathError{Op: "stat", Path: o.temp, Err: err}
		}
		if err := f.allowed(o); err != nil {
			return err
		}
		if o.st.Mode&unix.S_IFMT == unix.S_IFLNK {
			continue
		}
		f.dirs.syncs <- struct{}{}
		err = kernel.SyncTree(o.temp, isDir(&o.st))
		<-f.dirs.syncs
		if err != nil {
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

// rename gives what was made its final name, and the permissions that the old file had. Of links,
// the last one's is that name.
func (f *Files) rename(o *out) error {
	o.path = behind(o.path)
	if mode := permissions(o.path); mode != 0 && o.st.Mode&unix.S_IFMT == unix.S_IFREG && mode != uint32(o.st.Mode&0o777) {
		if err := unix.Chmod(o.temp, mode); err != nil {
			return err
		}
	}
	err := kernel.IgnoreEINTR(func() error { return unix.Rename(o.temp, o.path) })
	switch {
	case err == unix.EXDEV && o.st.Mode&unix.S_IFMT == unix.S_IFREG:
		return f.across(o)
	case isDir(&o.st) && (err == unix.ENOTEMPTY || err == unix.EEXIST):
		return f.exchange(o)
	case err == nil && !isDir(&o.st) && o.st.Nlink > 1:
		Remove(o.temp) // if the target was another link to it, nothing was renamed
	}
	return err
}

// mostLinks is how many links in a row behind follows; Linux follows as many.
const mostLinks = 40

// behind returns what the links lead to of which the first has a name, whether there is something
// or not.
func behind(path string) string {
	for range mostLinks {
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

// across copies what was made to another file system, to which a link leads, and renames it there.
func (f *Files) across(o *out) error {
	d, err := f.dirs.use(where(o.path))
	if err != nil {
		return err
	}
	defer f.dirs.leave(d)
	there := out{path: o.path, temp: f.beside(o.path), st: o.st}
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

// beside returns a temporary name for what is to be beside a file.
func (f *Files) beside(path string) string {
	i := task.BaseIndex(path)
	return path[:i] + f.dirs.newTemp() + path[i:]
}

// exchange replaces a directory by one that was made, and removes the old one.
func (f *Files) exchange(o *out) error {
	old := o.temp
	err := kernel.Exchange(o.temp, o.path)
	if err == unix.EINVAL || errors.Is(err, errors.ErrUnsupported) {
		old, err = f.move(o)
	}
	if err == nil {
		Remove(old)
	}
	return err
}

// move does what exchange does on a file system that cannot: between two renames, nothing
// has the final name. It returns the name of the old directory, which is to be removed.
func (f *Files) move(o *out) (old string, err error) {
	old = f.beside(o.path)
	if err = unix.Rename(o.path, old); err != nil {
		return "", err
	}
	if err = unix.Rename(o.temp, o.path); err != nil {
		return "", cmp.Or(unix.Rename(old, o.path), err)
	}
	return old, nil
}
