package target

import (
	"cmp"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// dirs are the directories that the run has used lately.
type dirs struct {
	first int64 // of the run's numbers

	mu       sync.Mutex
	attempts int64              // that have got a number
	byID     map[[2]uint64]*dir // by device and inode
	open     int                // where the numbers are marked
	most     int                // of these; in the other directories they are not
	syncs    chan struct{}      // has room for as many files as are brought to disk at once
}

// dir is a directory.
type dir struct {
	users  int    // attempts that make files in it
	unmark func() // ends the mark of the run's numbers; nil if they are not marked

	once      sync.Once
	leftovers []string // the temporary names that were there when the run first used it
}

// mostDirs is how many directories a run remembers. It forgets those without users when
// there are more, and may read one again.
const mostDirs = 4096

// Descriptors is how many Files take at most: a quarter of those that the process may have.
func Descriptors() int { return int(min(kernel.Limit(syscall.RLIMIT_NOFILE)/8, 1<<20)) * 2 }

// newDirs returns no directories.
func newDirs() dirs {
	half := Descriptors() / 2
	return dirs{first: rand.Int64N(numbers/ofRun) * ofRun, byID: map[[2]uint64]*dir{}, most: half, syncs: make(chan struct{}, half)}
}

// use returns the directory of a name, which is made if it is missing, with the run's numbers
// marked in it until leave. In a directory that cannot be opened, as it may not be read, they
// are not.
func (ds *dirs) use(name string) (*dir, error) {
	err := os.MkdirAll(name, 0o777)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := stat(name, &st); err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	// Better now than after hours of work.
	if err := unix.Faccessat(unix.AT_FDCWD, name, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return nil, &os.PathError{Op: "write to", Path: name, Err: err}
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	key := [2]uint64{uint64(st.Dev), st.Ino}
	if len(ds.byID) >= mostDirs {
		maps.DeleteFunc(ds.byID, func(_ [2]uint64, d *dir) bool { return d.users == 0 })
	}
	d := cmp.Or(ds.byID[key], &dir{})
	ds.byID[key] = d
	d.users++
	if d.unmark == nil && ds.open < ds.most {
		if d.unmark, err = kernel.Mark(name, tempName(ds.first), ds.first, ofRun); err == nil {
			ds.open++
		}
	}
	return d, nil
}

// leave undoes use.
func (ds *dirs) leave(d *dir) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if d.users--; d.users == 0 && d.unmark != nil {
		d.unmark()
		d.unmark = nil
		ds.open--
	}
}

// clean removes the leftovers of targets with the given base name from a directory. A name
// whose mark cannot be looked at is none.
func (d *dir) clean(name, base string) {
	d.once.Do(func() { d.leftovers = leftovers(name) })
	for _, temp := range d.leftovers {
		if temp[task.TempLen:] != base { // there may be thousands
			continue
		}
		if first, _, _ := parseTemp(temp); !marked(name, first) {
			Remove(name + "/" + temp)
		}
	}
}

func marked(name string, first int64) bool {
	return kernel.Marked(name, tempName(first), first, ofRun)
}

// leftovers returns the temporary names in a directory, and has files of marks removed that have
// ended. On a network file system, where the marks of other machines are not seen, it finds none.
func leftovers(name string) (list []string) {
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
		for _, temp := range names {
			switch first, base, ok := parseTemp(temp); {
			case ok && base != "":
				list = append(list, temp)
			case ok:
				marked(name, first)
			}
		}
		if err != nil {
			return list
		}
	}
}

// What begins a temporary name: tempStart, the digits of its number, and a dot.
const (
	tempStart = ".crew-"
	digits    = task.TempLen - len(tempStart) - len(".")
	numbers   = 36 * 36 * 36 * 36 * 36 * 36 * 36 * 36 // 36 to the power of digits
	ofRun     = 36 * 36 * 36                          // how many of these a run has for itself
)

// newTemp returns the beginning of the temporary names of an attempt.
func (ds *dirs) newTemp() string {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.attempts++
	return tempName(ds.first + ds.attempts%ofRun)
}

// tempName returns the beginning of the temporary names of a number. That of the first of a
// run is also the name of the file that marks them, where that takes one.
func tempName(n int64) string {
	s := strconv.FormatInt(n, 36)
	return tempStart + strings.Repeat("0", digits-len(s)) + s + "."
}

// parseTemp takes a temporary name apart: into the first number of its run and the base,
// which is "" for the file of a mark.
func parseTemp(name string) (first int64, base string, ok bool) {
	if len(name) < task.TempLen || name[:len(tempStart)] != tempStart || name[task.TempLen-1] != '.' {
		return 0, "", false
	}
	number := name[len(tempStart) : task.TempLen-1]
	n, err := strconv.ParseInt(number, 36, 64)
	return n - n%ofRun, name[task.TempLen:], err == nil && strings.ToLower(number) == number
}

// Remove removes what has a name, if anything has. A directory stays if
// something is mounted in it: tasks that build a root file system mount /dev there, and a
// killed one leaves it mounted.
func Remove(path string) {
	err := kernel.IgnoreEINTR(func() error { return unix.Unlink(path) })
	if (err == unix.EISDIR || err == unix.EPERM) && !holdsMount(path) {
		_ = os.RemoveAll(path)
	}
}

// holdsMount reports whether something is mounted in a directory or at its name. It makes the
// directories in it writable, as their owner may have to before they can be removed.
func holdsMount(path string) (found bool) {
	home := kernel.Mount(filepath.Dir(path), true)
	_ = filepath.WalkDir(path, func(path string, e fs.DirEntry, _ error) error {
		switch {
		case e == nil || !e.IsDir():
		case kernel.Mount(path, false) != home:
			found = true
			return fs.SkipAll
		default:
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return found
}
