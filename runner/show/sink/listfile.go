package sink

import (
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"crew/runner/keep/trust"
)

const maxLists = 20 // number of lists to keep in the directory

// createList creates a new list of records, which only the user can read, in the directory for lists or,
// if that fails, as a temporary file. It removes the oldest lists in that directory.
func createList() (*os.File, error) {
	name := "crew-again-" + time.Now().UTC().Format("20060102T150405Z") + "-*.list"
	dir := listDir()
	if dir != "" && os.MkdirAll(dir, 0o700) == nil && trust.MakeDir(dir) == nil {
		lists, _ := fs.Glob(os.DirFS(dir), "crew-again-[0-9]*T[0-9]*Z-[0-9]*.list") // in the order of their times
		for _, old := range lists[:max(0, len(lists)-(maxLists-1))] {
			os.Remove(filepath.Join(dir, old))
		}
		if f, err := os.CreateTemp(dir, name); err == nil {
			return f, nil
		}
	}
	return os.CreateTemp("", name)
}

// listDir returns the directory for lists according to the XDG Base Directory Specification, or "" without
// a home. Every list in it has a time in its name.
func listDir() string {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "crew/again")
	}
	home := os.Getenv("HOME")
	if st, err := os.Stat(home); !filepath.IsAbs(home) || err != nil || !st.IsDir() {
		return ""
	}
	return filepath.Join(home, ".local/state/crew/again")
}
