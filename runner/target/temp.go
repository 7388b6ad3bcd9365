package target

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"crew/runner/task"
)

// What begins a temporary name: tempStart, the digits of its number, and a dot.
const (
	tempStart = ".crew-"
	digits    = task.TempLen - len(tempStart) - len(".")
	numbers   = 36 * 36 * 36 * 36 * 36 * 36 * 36 * 36 // 36 to the power of digits
)

// newTemp returns a number that nobody uses, and the beginning of its temporary names.
func newTemp() (n uint64, temp string) {
	n = rand.Uint64N(numbers)
	s := strconv.FormatUint(n, 36)
	return n, tempStart + strings.Repeat("0", digits-len(s)) + s + "."
}

// parseTemp takes a temporary name apart.
func parseTemp(name string) (n uint64, base string, ok bool) {
	if len(name) <= task.TempLen || name[:len(tempStart)] != tempStart || name[task.TempLen-1] != '.' {
		return 0, "", false
	}
	number := name[len(tempStart) : task.TempLen-1]
	n, err := strconv.ParseUint(number, 36, 64)
	return n, name[task.TempLen:], err == nil && strings.ToLower(number) == number
}

// lock locks a number in a directory until fd is closed. If that fails, as in a directory
// that may not be read, it is the same to those who ask whether it is locked.
func lock(fd int, n uint64) {
	_ = unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_RDLCK, Start: int64(n), Len: 1})
}

// unlocked reports whether a number is certainly not locked by way of another descriptor.
func unlocked(fd int, n uint64) bool {
	ask := unix.Flock_t{Type: unix.F_WRLCK, Start: int64(n), Len: 1}
	return unix.FcntlFlock(uintptr(fd), unix.F_OFD_GETLK, &ask) == nil && ask.Type == unix.F_UNLCK
}

// id identifies a directory.
type id struct{ dev, ino uint64 }

// leftovers holds the temporary names that were in a directory when the run first used it.
type leftovers struct {
	once   sync.Once
	byBase map[string][]string // nil for none
}

// mostSeen is the number of directories that a run remembers. It forgets them when there are
// more, and may read one again.
const mostSeen = 4096

// clean removes the leftovers of targets with the given base name from a directory.
func (f *Files) clean(d *dir, base string) {
	var st unix.Stat_t
	if unix.Fstat(d.fd, &st) != nil {
		return
	}
	key := id{uint64(st.Dev), st.Ino}
	f.mu.Lock()
	l := f.seen[key]
	if l == nil {
		if len(f.seen) == mostSeen {
			clear(f.seen)
		}
		l = &leftovers{}
		f.seen[key] = l
	}
	f.mu.Unlock()
	l.once.Do(func() { l.byBase = d.leftovers() })
	for _, name := range l.byBase[base] {
		if n, _, _ := parseTemp(name); unlocked(d.fd, n) {
			d.remove(name)
		}
	}
}

// leftovers returns the temporary names in the directory by base name. On a network file
// system, where the locks of other machines are not seen, it finds none.
func (d *dir) leftovers() (byBase map[string][]string) {
	var st unix.Statfs_t
	if unix.Fstatfs(d.fd, &st) != nil || remote(int64(st.Type)) {
		return nil
	}
	fd, err := unix.Openat(d.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), d.path)
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

// dir is a directory in which an attempt makes files.
type dir struct {
	path string // it ends with a slash, or is empty
	fd   int
}
