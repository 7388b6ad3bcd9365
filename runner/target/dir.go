package target

import (
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// dirs are the directories that the run has used lately.
type dirs struct {
	mu   sync.Mutex
	byID map[id]*dir
	open int // with a descriptor
	most int // of these; the other directories are not locked
}

// id identifies a directory.
type id struct{ dev, ino uint64 }

// dir is a directory.
type dir struct {
	users int // attempts that make files in it
	fd    int // holds the locks of these; -1 if there are none

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

// use returns the directory of a name, which is made if it is missing, with n locked in it
// until leave. A directory that cannot be opened, as it may not be read, is not locked.
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
	if d.fd < 0 && ds.open < ds.most {
		if d.fd, err = openDir(name); err == nil {
			ds.open++
		}
	}
	d.set(unix.F_RDLCK, n)
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
	d = &dir{fd: -1}
	ds.byID[key] = d
	return d
}

func openDir(name string) (fd int, err error) {
	err = again(func() error {
		fd, err = unix.Open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err // -1 after an error
}

// leave undoes use.
func (ds *dirs) leave(d *dir, n uint64) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d.set(unix.F_UNLCK, n)
	if d.users--; d.users == 0 && d.fd >= 0 {
		_ = unix.Close(d.fd)
		d.fd = -1
		ds.open--
	}
}

// lock locks another number in a directory until nobody uses it.
func (ds *dirs) lock(d *dir, n uint64) {
	ds.mu.Lock()
	defer ds.mu.Unlock()
	d.set(unix.F_RDLCK, n)
}

// set locks or unlocks a number.
func (d *dir) set(kind int16, n uint64) {
	if d.fd >= 0 {
		_ = unix.FcntlFlock(uintptr(d.fd), unix.F_OFD_SETLK, flock(kind, n))
	}
}

func flock(kind int16, n uint64) *unix.Flock_t {
	return &unix.Flock_t{Type: kind, Start: int64(n), Len: 1}
}

// clean removes the leftovers of targets with the given base name from a directory. A name
// whose lock cannot be looked at is none.
func (d *dir) clean(name, base string) {
	d.once.Do(func() { d.leftovers = leftovers(name) })
	list := d.leftovers[base]
	if len(list) == 0 {
		return
	}
	fd, err := openDir(name) // one that does not hold this run's own locks
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for _, temp := range list {
		n, _, _ := parseTemp(temp)
		ask := flock(unix.F_WRLCK, n)
		if unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, ask) == nil && ask.Type == unix.F_UNLCK {
			Remove(name + "/" + temp)
		}
	}
}

// leftovers returns the temporary names in a directory by base name. On a network file
// system, where the locks of other machines are not seen, it finds none.
func leftovers(name string) (byBase map[string][]string) {
	var st unix.Statfs_t
	if again(func() error { return unix.Statfs(name, &st) }) != nil || remote(int64(st.Type)) {
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

// remote reports whether other machines may use a file system of a type (statfs(2)).
func remote(kind int64) bool {
	switch uint32(kind) {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC,
		unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CODA_SUPER_MAGIC, unix.OCFS2_SUPER_MAGIC, unix.V9FS_MAGIC, unix.FUSE_SUPER_MAGIC,
		0x01161970, 0x0bd00bd0, 0x47504653: // GFS2, Lustre, GPFS
		return true
	}
	return false
}
