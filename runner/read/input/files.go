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

// Files are templates for the files that a task makes, and for those that it makes them
// from.
type Files struct {
	Makes  []Made         // nil if nothing is known of what tasks make
	Stdout bool           // the last one is the task's standard output
	Reads  []*expand.Text // nil for the columns that name files
	Far    bool           // see task.Making
	Dir    string         // of tasks that have none; "" for crew's own
}

// Made is a file that a task makes, or one for each of its records if the text takes
// anything from these.
type Made struct {
	Text *expand.Text
	Temp bool // under a temporary name
}

func (f *Files) texts() (list []*expand.Text) {
	for _, m := range f.Makes {
		list = append(list, m.Text)
	}
	return append(list, f.Reads...)
}

// of returns what a task makes.
func (f *Files) of(tk *task.Task, v *expand.Values) (*task.Making, error) {
	m := &task.Making{Guessed: f.Reads == nil, Stdout: f.Stdout, Far: f.Far}
	have := map[string]int{} // indices of targets by their clean names
	for i, made := range f.Makes {
		n := len(m.Targets)
		for _, name := range eachText(made.Text, *v) {
			name = expand.TargetName(name)
			if b := path.Base(name); b == "." || b == ".." || b == "/" {
				return nil, fmt.Errorf("%q is no name of a file that could be made", name)
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
			return nil, errors.New("standard output goes to one file that nothing else goes to: give each task one of its own")
		}
	}
	if m.Guessed {
		m.Reads = slices.Concat(tk.Records...)
	}
	for _, text := range f.Reads {
		m.Reads = append(m.Reads, eachText(text, *v)...)
	}
	return m, nil
}

// eachText returns what a text is for each record, or for all of them if it takes nothing
// from these.
func eachText(text *expand.Text, v expand.Values) (list []string) {
	if len(v.Records) < 2 || !text.OfRecord() {
		return []string{text.Expand(v)}
	}
	for _, rec := range v.Records {
		v.Records = [][]string{rec}
		list = append(list, text.Expand(v))
	}
	return list
}

// mostDirs is how many directories spellings remember.
const mostDirs = 4096

// spellings find what the spellings of a file have in common. They are safe for concurrent use.
type spellings struct {
	mu   sync.Mutex
	dirs map[string]string // by directory, as it is written: its real name
}

// spell sets what is common to all spellings of the files that a task makes. Links to others are
// followed, as far as they lead anywhere now.
func (s *spellings) spell(tk *task.Task, dir string) {
	if tk.Makes == nil {
		return
	}
	for i := range tk.Makes.Targets {
		target := &tk.Makes.Targets[i]
		name := tk.PathIn(dir, target.Path)
		at := task.BaseIndex(name)
		target.Real = s.real(name[:at]) + "/" + name[at:]
		if _, err := os.Readlink(name); err == nil {
			if real, err := filepath.EvalSymlinks(target.Real); err == nil {
				target.Real = real
			}
		}
	}
}

// real returns the real name of a directory.
func (s *spellings) real(dir string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if real, known := s.dirs[dir]; known {
		return real
	}
	if s.dirs == nil || len(s.dirs) == mostDirs {
		s.dirs = map[string]string{}
	}
	real, err := filepath.Abs(dir)
	for rest := ""; err == nil; real, rest = filepath.Dir(real), "/"+filepath.Base(real)+rest {
		if found, err := filepath.EvalSymlinks(real); err == nil || real == "/" { // what is missing will be made
			real = strings.TrimSuffix(found, "/") + rest
			break
		}
	}
	s.dirs[dir] = real
	return real
}
