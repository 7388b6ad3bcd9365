package journal

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"

	"crew/runner/task"
)

// Saved reads the outputs that a directory keeps, without its lock: a run may be writing
// there meanwhile. What cannot be read, such as an output that a compaction has removed, is
// missing. It is not safe for concurrent use.
type Saved struct {
	out      outputs
	attempts map[identity][]extent
}

// maxSaved is of how many tasks Saved notes where their earlier attempts are.
const maxSaved = 100_000

// OpenSaved opens the outputs of a directory. Without a journal the error is
// fs.ErrNotExist.
func OpenSaved(dir string) (*Saved, error) {
	f, err := os.Open(filepath.Join(dir, journalName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := readHead(f, f.Name()); err != nil {
		return nil, err
	}
	s := &Saved{out: outputs{dir: dir}, attempts: map[identity][]extent{}}
	var lines scanned
	for ln := range lines.lines(f) {
		if !ln.task || !bytes.Contains(ln.body, []byte(`,"attempts":[`)) || len(s.attempts) == maxSaved {
			continue
		}
		if p, ok := parseExtent(field(ln.body, streams[2])); ok {
			s.attempts[ln.id] = append(s.attempts[ln.id], p)
		}
	}
	s.open()
	return s, lines.err
}

// open opens the files that are there now.
func (s *Saved) open() {
	s.Close()
	entries, _ := os.ReadDir(s.out.dir)
	var firsts []int64
	for _, e := range entries {
		if first, ok := firstOf(e.Name()); ok {
			firsts = append(firsts, first)
		}
	}
	slices.Sort(firsts)
	for _, first := range firsts {
		if f, err := os.Open(filepath.Join(s.out.dir, outputName(first))); err == nil {
			s.out.files = append(s.out.files, outputFile{f, first})
		}
	}
}

// Close closes the files.
func (s *Saved) Close() {
	s.out.close()
	s.out.files = nil
}

// End returns at most the last n bytes of the output that a line of the journal says is at a
// place; nil if they are missing. It verifies them only if they are the whole.
func (s *Saved) End(at [3]int64, n int) []byte {
	p := extent{at[0], at[1], uint32(at[2])}
	if p.off < 0 || p.n <= 0 {
		return nil
	}
	for range 2 {
		out := s.out.find(p)
		end, err := out.Tail(n)
		if err == nil && p.n <= int64(n) {
			_, err = s.out.verified(p)
		}
		if err == nil {
			return end
		}
		s.open() // another file may have been begun
	}
	return nil
}

// Attempts returns the attempts that are at a place; nil if they are missing.
func (s *Saved) Attempts(at [3]int64) []*task.Result {
	return s.openAttempts(extent{at[0], at[1], uint32(at[2])})
}

// AttemptsOf returns the earlier attempts of the task with an ID of the journal, as far as
// they were saved when it was opened.
func (s *Saved) AttemptsOf(id string) (list []*task.Result) {
	if id, ok := parseID([]byte(id)); ok {
		for _, p := range s.attempts[id] {
			list = append(list, s.openAttempts(p)...)
		}
	}
	return list
}

func (s *Saved) openAttempts(p extent) []*task.Result {
	if p.off < 0 || p.n <= 0 {
		return nil
	}
	for range 2 {
		if list, err := s.out.openAttempts(&task.Task{}, p); err == nil {
			return list
		}
		s.open()
	}
	return nil
}
