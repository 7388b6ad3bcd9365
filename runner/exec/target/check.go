package target

import (
	"encoding/binary"
	"hash/fnv"
	"io"
	"math"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// stale returns why a task has to run, or "" if it need not. In the latter case the task's stamp
// describes the existing files.
func (f *Files) stale(t *task.Task) string {
	m := t.Makes
	switch {
	case f.Always:
		return "--always-make"
	case m.Known == task.KnownUnmade:
		return "it failed or was interrupted before"
	case m.Known == task.KnownMade && m.Made.Command != m.Stamp.Command:
		return "its command has changed"
	}
	var oldest file
	since := int64(math.MaxInt64)
	for i, target := range m.Targets {
		now, why := f.statTarget(t, target.Path)
		switch {
		case why != "":
			return why
		case m.Known == task.KnownMade && now.ctime < m.Made.Since:
			return now.name + " is older than when it was last made"
		}
		since = min(since, now.ctime)
		if i == 0 || now.mtime.Before(oldest.mtime) {
			oldest = now
		}
	}
	in := f.settledInputs(t)
	switch {
	case in.missing != "":
		return "its input " + in.missing + " is missing"
	case oldest.mtime.Before(in.newest.mtime):
		return oldest.name + " is older than " + in.newest.name
	case m.Known == task.KnownMade && m.Made.Inputs != in.sum:
		return "its inputs have changed"
	}
	m.Stamp.Inputs, m.Stamp.Since = in.sum, since
	return ""
}

// file is an existing file.
type file struct {
	name  string
	mtime time.Time
	ctime int64 // in nanoseconds since 1970
}

// statTarget returns the file of a target. If the target cannot be up to date, why gives the reason.
func (f *Files) statTarget(t *task.Task, name string) (now file, why string) {
	var st unix.Stat_t
	switch err := stat(t.PathIn(f.Dir, name), &st); {
	case name == "":
		return now, "a target has no name"
	case err == unix.ENOENT || err == unix.ENOTDIR:
		return now, name + " is missing"
	case err != nil:
		return now, name + ": " + err.Error()
	case isDir(&st) && !f.Directories:
		return now, name + " is a directory, which may be incomplete"
	case !isDir(&st) && st.Mode&unix.S_IFMT != unix.S_IFREG:
		return now, name + " is a device, a pipe or a socket, which may hold anything"
	}
	return file{name, time.Unix(st.Mtim.Unix()), st.Ctim.Nano()}, ""
}

// Racy is how long after a change of a file another change may leave the file's time the same: the
// longest tick of the clock from which the kernel takes that time.
const Racy = 10 * time.Millisecond

// inputs describes the inputs of a task at one moment.
type inputs struct {
	newest  file
	missing string // an input that does not exist; "" if there is none

	// Only with a journal. Without one, sum and settled are as if there were no inputs.
	sum     uint64    // see task.Stamp
	began   time.Time // when scan started
	settled time.Time // after this time any change alters sum; zero if any change does
}

// scan looks at the inputs of a task. Targets do not count as inputs.
func (f *Files) scan(t *task.Task) (in inputs) {
	m := t.Makes
	in.began = time.Now()
	sum := fnv.New64a() // RFC 9923; it must stay the same: journals hold it
	made := make(map[string]bool, len(m.Targets))
	for _, target := range m.Targets {
		made[filepath.Clean(target.Path)] = true
	}
	for _, name := range m.Reads {
		if name == "" || made[filepath.Clean(name)] {
			continue
		}
		var st unix.Stat_t
		path := t.PathIn(f.Dir, name)
		err := stat(path, &st)
		if f.DryRun && f.isPretended(path) {
			st.Mode, st.Mtim, err = unix.S_IFREG, unix.NsecToTimespec(time.Now().UnixNano()), nil
		}
		switch {
		case m.Guessed && (err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG):
			continue
		case err != nil:
			in.missing = name
			st = unix.Stat_t{Size: -1}
		case in.newest.mtime.Before(time.Unix(st.Mtim.Unix())):
			in.newest = file{name, time.Unix(st.Mtim.Unix()), 0}
		}
		if f.Journal {
			in.add(sum, name, &st)
		}
	}
	in.sum = sum.Sum64()
	if now := time.Now().Add(Racy); f.Notice != nil && !f.DryRun && in.newest.mtime.After(now) {
		f.future.Do(func() {
			f.Notice("the time of " + in.newest.name + " is in the future, so targets made from it count as old: touch it")
		})
	}
	return in
}

// pretend records the files that a task would make, so that they count as new for the tasks that read
// them.
func (f *Files) pretend(t *task.Task) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pretended == nil {
		f.pretended = map[string]bool{}
	}
	for _, target := range t.Makes.Targets {
		f.pretended[filepath.Clean(t.PathIn(f.Dir, target.Path))] = true
	}
}

func (f *Files) isPretended(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pretended[filepath.Clean(path)]
}

// add adds a file to the sum. If the file has just changed, settled becomes the time from which another
// change will give it another time.
func (in *inputs) add(sum io.Writer, name string, st *unix.Stat_t) {
	text := []byte(name)
	for _, n := range [...]int64{int64(len(name)), st.Size, int64(st.Mtim.Sec), int64(st.Mtim.Nsec)} {
		text = binary.LittleEndian.AppendUint64(text, uint64(n))
	}
	_, _ = sum.Write(text)
	at := time.Unix(st.Mtim.Unix())
	if age := in.began.Sub(at); -Racy < age && age < Racy && in.settled.Before(at.Add(Racy)) {
		in.settled = at.Add(Racy)
	}
}

// settledInputs looks at the inputs of a task. It waits until any later change, however soon, will
// alter their sum.
func (f *Files) settledInputs(t *task.Task) inputs {
	in := f.scan(t)
	wait := time.Until(in.settled)
	if wait <= 0 {
		return in
	}
	time.Sleep(wait)
	in = f.scan(t)
	if time.Until(in.settled) > 0 {
		// An input is being written, so a target made now is not up to date.
		in.sum += uint64(time.Now().UnixNano())
	}
	return in
}

func stat(path string, st *unix.Stat_t) error {
	return kernel.IgnoreEINTR(func() error { return unix.Stat(path, st) })
}

func lstat(path string, st *unix.Stat_t) error {
	return kernel.IgnoreEINTR(func() error { return unix.Lstat(path, st) })
}
