package target

import (
	"cmp"
	"io/fs"
	"maps"
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

// dirs holds the directories that the run has used lately.
type dirs struct {
	first int64 // the first of the run's numbers

	mu      sync.Mutex
	named   int64              // number of prefixes that newTemp has returned
	byID    map[[2]uint64]*dir // by device and inode
	open    int                // directories where the numbers are marked
	maxOpen int                // limit of open; other directories are not marked
	syncs   chan struct{}      // semaphore: limits how many attempts sync their files at once
}

// dir is a directory in which attempts make files.
type dir struct {
	users  int    // attempts that make files in it
	unmark func() // ends the mark of the run's numbers; nil if they are not marked

	once      sync.Once
	leftovers []string // temporary names that existed when the run first used the directory
}

// maxDirs is how many directories a run remembers. If there are more, it forgets directories
// without users, and reads them again when they are needed.
const maxDirs = 4096

// Descriptors returns how many file descriptors a Files uses at most: a quarter of those that the
// process may have.
func Descriptors() int { return int(min(kernel.Limit(syscall.RLIMIT_NOFILE)/8, 1<<20)) * 2 }

// acquire returns the directory of a name, and makes it if it is missing. The run's numbers are marked
// in it until release. They are not marked in a directory that cannot be opened because it is not
// readable.
func (ds *dirs) acquire(name string) (*dir, error) {
	err := os.MkdirAll(name, 0o777)
	if err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := stat(name, &st); err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	// It is better to fail now than after hours of work.
	if err := unix.Faccessat(unix.AT_FDCWD, name, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return nil, &os.PathError{Op: "write to", Path: name, Err: err}
	}
	ds.mu.Lock()
	defer ds.mu.Unlock()
	key := [2]uint64{uint64(st.Dev), st.Ino}
	if len(ds.byID) >= maxDirs {
		maps.DeleteFunc(ds.byID, func(_ [2]uint64, d *dir) bool { return d.users == 0 })
	}
	d := cmp.Or(ds.byID[key], &dir{})
	ds.byID[key] = d
	d.users++
	if d.unmark == nil && ds.open < ds.maxOpen {
		if d.unmark, err = kernel.Mark(name, tempName(ds.first), ds.first, perRun); err == nil {
			ds.open++
		}
	}
	return d, nil
}

// release undoes acquire.
func (ds *dirs) release(d *dir) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	if d.users--; d.users == 0 && d.unmark != nil {
		d.unmark()
		d.unmark = nil
		ds.open--
	}
}

// clean removes the leftovers of targets with the given base name from a directory. It keeps a name if
// it cannot tell whether the number is marked.
func (d *dir) clean(name, base string) {
	d.once.Do(func() { d.leftovers = leftovers(name) })
	for _, temp := range d.leftovers {
		if temp[task.TempLen:] != base { // there may be thousands
			continue
		}
		if first, _, _ := parseTemp(temp); !isMarked(name, first) {
			Remove(name + "/" + temp)
		}
	}
}

func isMarked(name string, first int64) bool {
	return kernel.Marked(name, tempName(first), first, perRun)
}

// leftovers returns the temporary names in a directory, and removes the mark files of processes that
// have ended. On a network file system it returns none, because the marks of other machines cannot be
// seen there.
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
				isMarked(name, first)
			}
		}
		if err != nil {
			return list
		}
	}
}

// A temporary name begins with tempStart, the digits of its number, and a dot.
const (
	tempStart = ".crew-"
	digits    = task.TempLen - len(tempStart) - len(".")
	numbers   = 36 * 36 * 36 * 36 * 36 * 36 * 36 * 36 // 36 to the power of digits
	perRun    = 36 * 36 * 36                          // how many of these a run has for itself
)

// newTemp returns a new prefix of temporary names.
func (ds *dirs) newTemp() string {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	ds.named++
	return tempName(ds.first + ds.named%perRun)
}

// tempName returns the prefix of the temporary names with number n. The prefix with the first number of
// a run is also the name of the run's mark file, on systems where marks are files.
func tempName(n int64) string {
	s := strconv.FormatInt(n, 36)
	return tempStart + strings.Repeat("0", digits-len(s)) + s + "."
}

// parseTemp splits a temporary name into the first number of its run and the base name. base is "" for
// a mark file.
func parseTemp(name string) (first int64, base string, ok bool) {
	if len(name) < task.TempLen || name[:len(tempStart)] != tempStart || name[task.TempLen-1] != '.' {
		return 0, "", false
	}
	number := name[len(tempStart) : task.TempLen-1]
	n, err := strconv.ParseInt(number, 36, 64)
	return n - n%perRun, name[task.TempLen:], err == nil && strings.ToLower(number) == number
}

// Remove removes the file or directory at path, if there is one. A directory stays if something is
// mounted in it: tasks that build a root file system mount /dev there, and a killed task leaves it
// mounted.
func Remove(path string) {
	err := kernel.IgnoreEINTR(func() error { return unix.Unlink(path) })
	if (err == unix.EISDIR || err == unix.EPERM) && !holdsMount(path) {
		_ = os.RemoveAll(path)
	}
}

// holdsMount reports whether something is mounted at path or below it. It also makes the directories
// below path writable, which may be necessary before their owner can remove them.
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
