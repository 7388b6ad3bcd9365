package sink

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	failedName = "crew-failed-" // the names of files of failed records begin so; then comes the time
	keptFailed = 20             // how many of them stay in a directory
)

// createFailed creates a file for the records of failed tasks in dir, which it makes
// if it is missing, and removes all but the latest such files there. If that is not
// possible, or dir is "", the file is in os.TempDir(). Only the user can read it.
func createFailed(dir, extension string) (*os.File, error) {
	pattern := failedName + time.Now().UTC().Format("20060102T150405Z") + "-*" + extension
	if dir != "" && os.MkdirAll(dir, 0o700) == nil {
		if f, err := os.CreateTemp(dir, pattern); err == nil {
			prune(dir)
			return f, nil
		}
	}
	return os.CreateTemp("", pattern)
}

// prune removes all files of failed records in dir but the latest.
func prune(dir string) {
	entries, _ := os.ReadDir(dir) // in the order of their names
	kept := 0
	for i := len(entries) - 1; i >= 0; i-- {
		name := entries[i].Name()
		if !strings.HasPrefix(name, failedName) {
			continue
		}
		if kept++; kept > keptFailed {
			_ = os.Remove(filepath.Join(dir, name))
		}
	}
}
