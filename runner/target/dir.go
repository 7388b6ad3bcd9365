package target

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/kernel"
)

// dirs are the directories that the run has used lately.
type dirs struct {
	mu   sync.Mutex
	byID map[id]*dir
	open int // with marks
	most int // of these; names in the other directories are not marked
}

// id identifies a directory.
type id struct{ dev, ino uint64 }

// dir is a directory.
type dir struct {
	users int           // attempts that make files in it
	marks *kernel.Marks // of their temporary names; nil if they are not marked

	// The temporary names that were there when the run first used it, by base name. They are
	// set once; nil for none.
	once      sync.Once
	leftovers map[string][]string
}

// mostDirs is how many directories a run remembers. It forgets those without users when
// there are more, and may read one again.
const mostDirs = 4096

// newDirs returns no directories. They take at most an eighth of the descriptors that the
// process may have.
func newDirs() dirs {
	limit := syscall.Rlimit{Cur: 1024}
	_ = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return dirs{byID: map[id]*dir{}, most: int(min(limit.Cur/8, 1<<20))}
}

// use returns the directory of a name, which is made if it is missing, with n marked in it
// until leave. In a directory that cannot be opened, as it may not be read, it is not.
func (ds *dirs) use(name string, n uint64) (*dir, error) {
	var st unix.Stat_t
	err := stat(name, &st)
	if err == unix.ENOENT {
		if err := os.MkdirAll(name, 0o777); err != nil {
			return nil, err
		}
		err = stat(name, &st)
	}
	switch {
	case err != nil:
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	case !isDir(&st):
		return nil, &os.PathError{Op: "open", Path: name, Err: unix.ENOTDIR}
	}
	// Better now than after hours of work.
	if err := unix.Faccessat(unix.AT_FDCWD, name, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return nil, &os.PathError{Op: "write to", Path: name, Err: err}
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d := ds.remember(id{uint64(st.Dev), st.Ino})
	d.users++
	if d.marks == nil && ds.open < ds.most {
		if marks, err := kernel.OpenMarks(name, tempName); err == nil {
			d.marks = marks
			ds.open++
		}
	}
	d.mark(n)
	return d, nil
}

func (ds *dirs) remember(key id) *dir {
	d := ds.byID[key]
	if d != nil {
		return d
	}
	if len(ds.byID) >= mostDirs {
		for key, d := range ds.byID {
			if d.users == 0 {
				delete(ds.byID, key)
			}
		}
	}
	d = &dir{}
	ds.byID[key] = d
	return d
}

// leave undoes use.
func (ds *dirs) leave(d *dir, n uint64) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d.users--
	switch {
	case d.marks == nil:
	case d.users > 0:
		d.marks.Unset(n)
	default:
		d.marks.Close()
		d.marks = nil
		ds.open--
	}
}

// mark marks another number in a directory until nobody uses it.
func (ds *dirs) mark(d *dir, n uint64) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d.mark(n)
}

func (d *dir) mark(n uint64) {
	if d.marks != nil {
		d.marks.Set(n)
	}
}

// clean removes the leftovers of targets with the given base name from a directory. A name
// whose mark cannot be looked at is none.
func (d *dir) clean(name, base string) {
	list := []string{}
	d.once.Do(func() {
		d.leftovers = leftovers(name)
		list = d.leftovers[""]
	})
	list = append(list, d.leftovers[base]...)
	if len(list) == 0 {
		return
	}
	marks, err := kernel.OpenMarks(name, tempName) // not those of this run
	if err != nil {
		return
	}
	defer marks.Close()
	for _, temp := range list {
		n, base, _ := parseTemp(temp)
		if !marks.Others(n) && base != "" {
			Remove(name + "/" + temp)
		}
	}
}

// leftovers returns the temporary names in a directory by base name, which is "" for the
// file of a mark. On a network file system, where the marks of other machines are not seen,
// it finds none.
func leftovers(name string) (byBase map[string][]string) {
	if kernel.Remote(name) {
		return nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer file.Close()
	for {
		names, err := file.Readdirnames(1024)
		for _, name := range names {
			if _, base, ok := parseTemp(name); ok {
				if byBase == nil {
					byBase = map[string][]string{}
				}
				byBase[base] = append(byBase[base], name)
			}
		}
		if err != nil {
			return byBase
		}
	}
}
