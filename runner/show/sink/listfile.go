package sink

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const maxLists = 20 // number of lists to keep in the directory

// listFile is a new list of records, which only the user can read. Its name ends with its inode
// number, so that a list can be distinguished from other files, even from copies of it.
type listFile struct {
	*os.File
	path string
}

// createList creates a list in the directory for lists or, if that fails, as a temporary file. It
// removes the oldest lists in that directory.
func createList() (*listFile, error) {
	stem := "crew-again-" + time.Now().UTC().Format("20060102T150405Z") + "-"
	dir := listDir()
	if dir != "" && os.MkdirAll(dir, 0o700) == nil {
		if f, err := os.CreateTemp(dir, stem+"*.list"); err == nil {
			l := &listFile{f, f.Name()}
			path := filepath.Join(dir, stem+inode(l.path)+".list")
			if os.Link(l.path, path) == nil { // unlike Rename, Link never replaces a file
				os.Remove(l.path)
				l.path = path
			}
			removeLists(dir)
			return l, nil
		}
	}
	f, err := os.CreateTemp("", stem+"*.list")
	if err != nil {
		return nil, err
	}
	return &listFile{f, f.Name()}, nil
}

// removeLists removes all lists in dir except the latest maxLists.
func removeLists(dir string) {
	names, _ := fs.Glob(os.DirFS(dir), "crew-again-*.list") // in the order of their times
	names = slices.DeleteFunc(names, func(name string) bool {
		n := inode(filepath.Join(dir, name))
		return n == "" || !strings.HasSuffix(name, "Z-"+n+".list")
	})
	for _, name := range names[:max(0, len(names)-maxLists)] {
		os.Remove(filepath.Join(dir, name))
	}
}

// inode returns the inode number of a regular file that the user owns, or "".
func inode(path string) string {
	st, err := os.Lstat(path)
	if err != nil || !st.Mode().IsRegular() {
		return ""
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || int(sys.Uid) != os.Geteuid() {
		return ""
	}
	return strconv.FormatUint(uint64(sys.Ino), 10)
}

// listDir returns the directory for lists according to the XDG Base Directory Specification, or ""
// if there is none.
func listDir() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "crew")
	}
	home := os.Getenv("HOME")
	if st, err := os.Stat(home); !filepath.IsAbs(home) || err != nil || !st.IsDir() {
		return ""
	}
	return filepath.Join(home, ".local/state/crew")
}
