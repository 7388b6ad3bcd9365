package target

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/task"
)

// work is what an attempt makes under temporary names.
type work struct {
	number uint64
	temp   string
	room   int // the directories that there is room for
	dirs   []*dir
	outs   []out
}

// out is a target.
type out struct {
	dir        *dir
	name       string      // as the task has it
	base, temp string      // in the directory
	st         unix.Stat_t // of what was made
}

// Begin prepares an attempt. If its task makes files under temporary names, it chooses and
// locks these, makes missing directories and removes leftovers. It returns nil, or the result
// of an attempt that cannot start.
func (f *Files) Begin(a task.Attempt) *task.Result {
	if f.cfg.DryRun {
		f.pretend(a.Task)
		return nil
	}
	m := a.Task.Makes
	if f.cfg.Journal {
		m.Stamp.Inputs = f.settle(a.Task, f.look(a.Task)).sum
	}
	w := &work{room: directories(m)}
	if w.room == 0 {
		return nil
	}
	w.number, w.temp = newTemp()
	if err := f.open(w, a.Task); err != nil {
		now := time.Now()
		return &task.Result{
			Task: a.Task, Attempt: a.Number, Worker: a.Slot.ID, Host: a.Slot.Host, Argv: a.Argv(),
			Outcome: task.StartFailed, Code: 126, Err: err, Start: now, End: now,
		}
	}
	m.Temp = w.temp
	f.mu.Lock()
	f.works[number{a.Task.ID, a.Number}] = w
	f.mu.Unlock()
	return nil
}

// open prepares the targets of a task.
func (f *Files) open(w *work, t *task.Task) error {
	if err := f.room.holds(w.room); err != nil {
		return err
	}
	if t.Dir != "" { // it is not for crew to make it
		if err := stat(t.Dir, new(unix.Stat_t)); err != nil {
			return fmt.Errorf("change to directory %s: %w", t.Dir, err)
		}
	}
	f.room.enter(w.room)
	for _, target := range t.Makes.Targets {
		if !target.Temp {
			continue
		}
		if err := f.prepare(w, target.Path, t.PathIn(f.cfg.Dir, target.Path)); err != nil {
			f.close(w)
			return err
		}
	}
	return nil
}

// prepare prepares a target. path is how this process names it.
func (f *Files) prepare(w *work, name, path string) error {
	i := task.BaseIndex(path)
	base := path[i:]
	if base == "" || base == "." || base == ".." {
		return fmt.Errorf("%q cannot be made: it does not end with a name", name)
	}
	d, err := w.open(path[:i])
	if err != nil {
		return err
	}
	var st unix.Stat_t
	temp := path[:i] + w.temp + base
	switch err := again(func() error { return unix.Lstat(temp, &st) }); err {
	case unix.ENOENT:
	case unix.ENAMETOOLONG:
		return fmt.Errorf("%s cannot be made: its name is too long, as a temporary one has %d bytes more", name, task.TempLen)
	default:
		return &os.PathError{Op: "stat", Path: temp, Err: cmp.Or(err, error(unix.EEXIST))}
	}
	if err := f.replaceable(name, path); err != nil {
		return err
	}
	f.clean(d, base)
	w.outs = append(w.outs, out{dir: d, name: name, base: base, temp: temp[i:]})
	return nil
}

// replaceable returns an error if what has the name of a target is not to be replaced. As
// with mv, a link is.
func (f *Files) replaceable(name, path string) error {
	var st unix.Stat_t
	if again(func() error { return unix.Lstat(path, &st) }) != nil {
		return nil
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK { // perhaps /dev/stdout
		if stat(path, &st) != nil || isDir(&st) {
			return nil
		}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		if f.cfg.Directories {
			return nil
		}
		return isDirectory(name)
	}
	return isSpecial(name)
}

func isSpecial(name string) error {
	return fmt.Errorf("%s cannot be made: it is a device, a pipe or a socket", name)
}

func isDir(st *unix.Stat_t) bool { return st.Mode&unix.S_IFMT == unix.S_IFDIR }

func isDirectory(name string) error {
	return fmt.Errorf("%s is a directory, which only --state DIR can tell whole from unfinished", name)
}

// open opens and locks a directory, which it makes if it is missing. path ends with a slash,
// or is empty.
func (w *work) open(path string) (*dir, error) {
	for _, d := range w.dirs {
		if d.path == path {
			return d, nil
		}
	}
	name := cmp.Or(strings.TrimRight(path, "/"), path, ".")
	fd, err := openDir(name)
	if err == unix.ENOENT {
		if err := os.MkdirAll(name, 0o777); err != nil {
			return nil, err
		}
		fd, err = openDir(name)
	}
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	d := &dir{path, fd}
	w.dirs = append(w.dirs, d)
	// Better now than after hours of work.
	if err := unix.Faccessat(fd, ".", unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return nil, &os.PathError{Op: "write to", Path: name, Err: err}
	}
	lock(fd, w.number)
	return d, nil
}

// shortage is how long to wait for a descriptor.
const shortage = 10 * time.Second

func openDir(name string) (fd int, err error) {
	const flags = unix.O_DIRECTORY | unix.O_CLOEXEC
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		err = again(func() error { fd, err = unix.Open(name, unix.O_RDONLY|flags, 0); return err })
		if err == unix.EACCES { // it may still be used, but neither be locked nor searched for leftovers
			err = again(func() error { fd, err = unix.Open(name, unix.O_PATH|flags, 0); return err })
		}
		if err != unix.EMFILE && err != unix.ENFILE || time.Since(began) > shortage {
			return fd, err
		}
	}
}

// close undoes open.
func (f *Files) close(w *work) {
	for _, d := range w.dirs {
		_ = unix.Close(d.fd)
	}
	f.room.leave(w.room)
}

// End gives what an attempt has made its final names if that has succeeded, and removes it
// otherwise. If it cannot be kept, or is not there, the attempt has failed.
func (f *Files) End(r *task.Result) {
	n := number{r.Task.ID, r.Attempt}
	f.mu.Lock()
	w := f.works[n]
	delete(f.works, n)
	f.mu.Unlock()
	if w != nil {
		f.finish(w, r)
		f.close(w)
	}
	if f.cfg.Journal && r.Outcome == task.OK {
		r.Task.Makes.Stamp.Since = f.since(r.Task)
	}
}

// finish ends what Begin began.
func (f *Files) finish(w *work, r *task.Result) {
	if r.Outcome == task.OK {
		err := f.keep(w)
		if err == nil {
			return
		}
		r.Outcome, r.Err = task.NoOutput, err
	}
	for _, o := range w.outs {
		o.dir.remove(o.temp)
	}
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
func (f *Files) keep(w *work) error {
	for i := range w.outs {
		o := &w.outs[i]
		err := again(func() error { return unix.Fstatat(o.dir.fd, o.temp, &o.st, unix.AT_SYMLINK_NOFOLLOW) })
		switch {
		case err == unix.ENOENT:
			return errors.New(o.name + " was not made")
		case err != nil:
			return &os.PathError{Op: "stat", Path: o.dir.path + o.temp, Err: err}
		case isDir(&o.st) && !f.cfg.Directories:
			return isDirectory(o.name)
		case !isDir(&o.st) && o.st.Mode&unix.S_IFMT != unix.S_IFREG && o.st.Mode&unix.S_IFMT != unix.S_IFLNK:
			return isSpecial(o.name)
		}
	}
	for _, o := range w.outs {
		if err := o.sync(); err != nil {
			return &os.PathError{Op: "sync", Path: o.name, Err: err}
		}
	}
	for _, o := range w.outs {
		if err := o.rename(); err != nil {
			return &os.PathError{Op: "replace", Path: o.name, Err: err}
		}
	}
	return nil
}

// sync brings what was made to disk.
func (o *out) sync() error {
	switch o.st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFDIR:
	default:
		return nil
	}
	fd := -1
	err := again(func() (err error) {
		fd, err = unix.Openat(o.dir.fd, o.temp, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		return err
	})
	if err == nil {
		defer unix.Close(fd)
	}
	if err == nil && !isDir(&o.st) {
		err = again(func() error { return unix.Fsync(fd) })
		if err == unix.EINVAL { // its file system cannot
			return nil
		}
		return err
	}
	// A directory, or a file that may not be read.
	return again(func() error { return unix.Syncfs(o.dir.fd) })
}

// rename gives what was made its final name.
func (o *out) rename() error {
	fd := o.dir.fd
	err := again(func() error { return unix.Renameat(fd, o.temp, fd, o.base) })
	switch {
	case isDir(&o.st) && (err == unix.ENOTEMPTY || err == unix.EEXIST):
		return o.exchange()
	case err == nil && !isDir(&o.st) && o.st.Nlink > 1:
		o.dir.remove(o.temp) // if the target was another link to it, nothing was renamed
	}
	return err
}

// exchange replaces a directory by one that was made, and removes the old one.
func (o *out) exchange() error {
	fd, old := o.dir.fd, o.temp
	err := again(func() error { return unix.Renameat2(fd, o.temp, fd, o.base, unix.RENAME_EXCHANGE) })
	if err == unix.EINVAL || err == unix.ENOSYS || err == unix.EOPNOTSUPP {
		old, err = o.move()
	}
	if err == nil {
		o.dir.remove(old)
	}
	return err
}

// move does what exchange does on a file system that cannot: between two renames, nothing
// has the final name. It returns the name of the old directory.
func (o *out) move() (old string, err error) {
	n, temp := newTemp()
	fd, old := o.dir.fd, temp+o.base
	lock(fd, n)
	if err = unix.Renameat(fd, o.base, fd, old); err != nil {
		return "", err
	}
	if err = unix.Renameat(fd, o.temp, fd, o.base); err != nil {
		return "", cmp.Or(unix.Renameat(fd, old, fd, o.base), err)
	}
	return old, nil
}
