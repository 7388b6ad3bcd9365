package task

import (
	"path"
	"strconv"
	"strings"
)

// Making lists the files that a task makes, and the files that it makes them from. The check sets the
// last fields before the task is queued, and attempts set them before they start. Sinks and recorders
// may read them once an attempt has started or the check has ended the task.
type Making struct {
	Targets []Target
	Reads   []string // the files to make the targets from; like these, relative to the task's directory
	Guessed bool     // Reads are columns of the record; only names of files count
	Far     bool     // the command runs on another machine, so Targets and Reads are relative to crew's own directory
	Stdout  bool     // the last target is the task's standard output

	// from the journal

	Known Known
	Made  Stamp   // if Known is KnownMade
	Done  *Result // the result of an earlier run, to be shown if the task need not run; nil if it was shown

	// set by the check and the attempts

	Why   string // why the task must run
	Temp  string // begins the temporary names of the latest attempt; "" if there are none
	Mode  uint32 // with Stdout, the permissions of the file; 0 for the default of a new file
	Stamp Stamp  // of the targets now; with a journal, Command is set with the task, and Since once they are made
}

// Target is a file or directory that a task makes.
type Target struct {
	Path string
	Temp bool   // the task makes it under a temporary name
	Real string // the same for all spellings of Path; "" if unknown
}

// Known is the state of a task that makes files, according to the journal.
type Known uint8

// The known states.
const (
	NotKnown    Known = iota // there is no journal, or the task has never begun
	KnownMade                // its targets were made, or were up to date
	KnownUnmade              // the task failed, or was interrupted
)

// Stamp tells whether a target was made by the same command from the same files.
type Stamp struct {
	Command uint64 // a hash of the command
	Inputs  uint64 // a hash of the names, sizes and times of the inputs
	// Since is when the first of the existing targets last changed (ctime), in nanoseconds since 1970.
	// A target with an earlier ctime is a different file: after a power failure a target may have its
	// former content although the journal says that its task ended. Nothing sets ctime back, and a
	// later change of a target by another program moves it forward.
	Since int64
}

// TempLen is the length of Making.Temp.
const TempLen = len(".crew-12345678.")

// TempName returns the temporary name of a target: Temp goes before its base name.
func (m *Making) TempName(target string) string {
	i := BaseIndex(target)
	return target[:i] + m.Temp + target[i:]
}

// Files returns the targets that the command itself makes: with temp those under temporary names,
// otherwise the others. m may be nil.
func (m *Making) Files(temp bool) (paths []string) {
	if m == nil {
		return nil
	}
	for i, t := range m.Targets {
		if t.Temp == temp && !(m.Stdout && i == len(m.Targets)-1) {
			paths = append(paths, t.Path)
		}
	}
	return paths
}

// AppendOuts appends the temporary names as members called out, out2 and so on. m may be nil.
func (m *Making) AppendOuts(b []byte) []byte {
	if m == nil {
		return b
	}
	for i, t := range m.Targets {
		name := "out"
		if i > 0 {
			name += strconv.Itoa(i + 1)
		}
		b = AppendText(b, name, m.TempName(t.Path))
	}
	return b
}

// BaseIndex returns the index of the base name of path, which must not end with a slash.
func BaseIndex(path string) int { return strings.LastIndexByte(path, '/') + 1 }

// PathIn returns a path of the task as seen from crew's own directory. dir is the directory for tasks
// with an empty Dir.
func (t *Task) PathIn(dir, name string) string {
	if t.Dir != "" && (t.Makes == nil || !t.Makes.Far) {
		dir = t.Dir
	}
	if dir == "" || path.IsAbs(name) {
		return name
	}
	return dir + "/" + name // not cleaned: a link before a .. counts
}
