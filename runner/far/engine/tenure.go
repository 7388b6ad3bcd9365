package engine

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"crew/runner/steer/control"
)

// tenure is a file on the machine of a worker of --ssh, which is for one run and host. It
// is locked by the worker and, should that be killed, by its guardian until all tasks have
// ended. So once the next worker has the lock, it knows that the worker which the file names
// has ended with all its tasks.
type tenure struct {
	file   *os.File
	before string // ID of the last worker; "" for none
}

const (
	lockAgain    = 10 * time.Millisecond // the pause before another try to lock the file
	tenurePrefix = "worker."             // of the names of the files
	tenureText   = "crew worker "        // with which they begin; the ID of a worker follows
	endedWithin  = 30 * time.Second      // in which the last worker must have ended for the next one to say so
	tenureKept   = 24 * time.Hour        // how long one is kept that no worker has locked
)

// succeed takes the place of the last worker with a mark. It returns nil if that worker has not
// ended within patience, or there is no such file.
func succeed(mark string, patience time.Duration) *tenure {
	dir, err := control.Dir()
	if err != nil || !validName(mark) {
		return nil
	}
	sweep(dir)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(lockAgain) {
		if f, err := lockFile(filepath.Join(dir, tenurePrefix+mark), os.O_CREATE); err == nil {
			t := &tenure{file: f}
			t.before, _ = t.last()
			t.name(t.before) // until this worker has an ID
			return t
		}
	}
	return nil
}

// sweep removes the files in a directory that runs have left which were killed.
func sweep(dir string) {
	old, _ := filepath.Glob(filepath.Join(dir, tenurePrefix+"*"))
	for _, name := range old {
		if st, err := os.Lstat(name); err != nil || time.Since(st.ModTime()) < tenureKept {
			continue
		}
		if f, err := lockFile(name, 0); err == nil {
			if _, ok := (&tenure{file: f}).last(); ok {
				_ = os.Remove(name)
			}
			f.Close()
		}
	}
}

// last returns the ID of the worker that the file names, or "". It returns false if the file is
// none of a tenure.
func (t *tenure) last() (id string, ok bool) {
	text, _ := os.ReadFile(t.file.Name())
	id, ok = strings.CutPrefix(string(text), tenureText)
	return strings.TrimSpace(id), ok
}

// name writes the ID of the worker. If that fails, the next worker knows less.
func (t *tenure) name(id string) { _ = os.WriteFile(t.file.Name(), []byte(tenureText+id+"\n"), 0) }

// end removes the file: no worker comes that has to know of this one. A nil tenure is none.
func (t *tenure) end() {
	if t != nil {
		_ = os.Remove(t.file.Name())
	}
}
