package task

import (
	"path"
	"strconv"
	"strings"
)

// Making says which files a task makes, and from what. Its last fields are set by the check,
// before the task is queued, and by its attempts, before they start. Sinks and recorders may
// read them once an attempt has started or the check has ended the task.
type Making struct {
	Targets []Target
	Reads   []string // what it is made from; like a target, in the task's directory
	Guessed bool     // Reads are columns, of which only the names of files count
	Far     bool     // the command runs on another machine, so Targets and Reads are in crew's own directory
	Stdout  bool     // the last target is the task's standard output

	// from the journal

	Known Known
	Made  Stamp   // if Known is KnownMade
	Done  *Result // the result of an earlier run, to be shown if the task need not run; nil if it was

	// from the check and the attempts

	Why   string // why it has to be made
	Temp  string // begins the temporary names of the latest attempt; "" if there are none
	Mode  uint32 // with Stdout, the permissions of the file that is written; 0 for those of any new one
	Stamp Stamp  // of what is made now; Command is set with the task, if there is a journal, and Since when it is made
}

// Target is a file or directory that a task makes.
type Target struct {
	Path string
	Temp bool   // the task makes it under a temporary name
	Real string // what all spellings of Path have in common; "" if that is not known
}

// Known says what the journal knows of a task that makes files.
type Known uint8

// The values of Known.
const (
	NotKnown    Known = iota // nothing: there is no journal, or the task has never begun
	KnownMade                // it was made, or was up to date
	KnownUnmade              // it failed, or was interrupted
)

// Stamp tells whether a target was made by the same command from the same files.
type Stamp struct {
	Command uint64 // a hash of what is run
	Inputs  uint64 // a hash of the names, sizes and times of the files
	// Since is when the first of the targets that are there last changed (ctime), in
	// nanoseconds since 1970. One that changed before is another: after a power cut a target
	// may have its former content although the journal has its end. Nothing sets ctime back,
	// and what somebody did to a target later moves it on.
	Since int64
}

// TempLen is the length of Making.Temp.
const TempLen = len(".crew-12345678.")

// TempName returns the temporary name of a target: Temp goes before its base name.
func (m *Making) TempName(target string) string {
	i := BaseIndex(target)
	return target[:i] + m.Temp + target[i:]
}

// Files returns the targets that the command itself makes, either those under temporary
// names or the others. m may be nil.
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

// AppendOuts appends the temporary names as members called out, out2 and so on. m may be
// nil.
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

// BaseIndex returns where the base name of a path begins, which must not end with a slash.
func BaseIndex(path string) int { return strings.LastIndexByte(path, '/') + 1 }

// PathIn returns a path of the task as seen from crew's own directory. dir is that of
// tasks that have none.
func (t *Task) PathIn(dir, name string) string {
	if t.Dir != "" && (t.Makes == nil || !t.Makes.Far) {
		dir = t.Dir
	}
	if dir == "" || path.IsAbs(name) {
		return name
	}
	return dir + "/" + name // not cleaned: a link before a .. counts
}
