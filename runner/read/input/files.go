package input

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"crew/runner/decide/task"
	"crew/runner/read/expand"
)

// Files are templates for the names of the files that a task makes and reads.
type Files struct {
	Makes  []Made         // nil if it is not known which files tasks make
	Stdout bool           // the last of Makes is the task's standard output
	Reads  []*expand.Text // nil for the columns that name files
	Far    bool           // see task.Making
	Dir    string         // directory of tasks without one; "" for crew's own
}

// Made is a file that a task makes. If its name depends on the record, the task makes one file for
// each of its records.
type Made struct {
	Text *expand.Text
	Temp bool // the task writes it under a temporary name
}

func (f *Files) texts() (list []*expand.Text) {
	for _, m := range f.Makes {
		list = append(list, m.Text)
	}
	return append(list, f.Reads...)
}

// makingOf returns the files that a task makes and reads.
func (f *Files) makingOf(tk *task.Task, v *expand.Values) (*task.Making, error) {
	m := &task.Making{Guessed: f.Reads == nil, Stdout: f.Stdout, Far: f.Far}
	have := map[string]int{} // index of each target by its clean name
	for i, made := range f.Makes {
		n := len(m.Targets)
		for _, name := range expandEach(made.Text, *v) {
			name = expand.TargetName(name)
			if b := path.Base(name); b == "." || b == ".." || b == "/" {
				return nil, fmt.Errorf("%q cannot be the name of a file that a task makes", name)
			}
			clean := path.Clean(name)
			if i, found := have[clean]; found {
				m.Targets[i].Temp = m.Targets[i].Temp || made.Temp
				continue
			}
			have[clean] = len(m.Targets)
			m.Targets = append(m.Targets, task.Target{Path: name, Temp: made.Temp})
		}
		if n = len(m.Targets) - n; f.Stdout && i == len(f.Makes)-1 && n != 1 {
			return nil, errors.New("each task needs a file of its own for its standard output: use a different name for each task")
		}
	}
	if m.Guessed {
		m.Reads = slices.Concat(tk.Records...)
	}
	for _, text := range f.Reads {
		m.Reads = append(m.Reads, expandEach(text, *v)...)
	}
	return m, nil
}

// expandEach returns the text for each record, or for all of them if it does not depend on the
// record.
func expandEach(text *expand.Text, v expand.Values) (list []string) {
	if len(v.Records) < 2 || !text.OfRecord() {
		return []string{text.Expand(v)}
	}
	for _, rec := range v.Records {
		v.Records = [][]string{rec}
		list = append(list, text.Expand(v))
	}
	return list
}

// maxDirs is how many directories spellings remembers.
const maxDirs = 4096

// spellings finds the real names of files, so that different spellings of one file can be
// recognized. It is safe for concurrent use.
type spellings struct {
	mu   sync.Mutex
	dirs map[string]string // real name of each directory by its name as written
}

// resolve sets Real, the name that all spellings of a file share, for the files that a task makes.
// It follows symbolic links to files that exist.
func (s *spellings) resolve(tk *task.Task, dir string) {
	if tk.Makes == nil {
		return
	}
	for i := range tk.Makes.Targets {
		target := &tk.Makes.Targets[i]
		name := tk.PathIn(dir, target.Path)
		at := task.BaseIndex(name)
		target.Real = s.realDir(name[:at]) + "/" + name[at:]
		if _, err := os.Readlink(name); err == nil {
			if real, err := filepath.EvalSymlinks(target.Real); err == nil {
				target.Real = real
			}
		}
	}
}

// realDir returns the real name of a directory.
func (s *spellings) realDir(dir string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if real, known := s.dirs[dir]; known {
		return real
	}
	if s.dirs == nil || len(s.dirs) == maxDirs {
		s.dirs = map[string]string{}
	}
	name, rest := dir, ""
	if !path.IsAbs(name) {
		wd, _ := os.Getwd()
		name = wd + "/" + name // not cleaned: a link before a .. counts
	}
	real, err := filepath.EvalSymlinks(name)
	for err != nil { // directories that are missing will be made
		name = strings.TrimRight(name, "/")
		at := task.BaseIndex(name)
		name, rest = name[:at], name[at:]+"/"+rest
		real, err = filepath.EvalSymlinks(name)
	}
	real = path.Join(real, rest)
	s.dirs[dir] = real
	return real
}
