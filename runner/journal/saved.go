package journal

import (
	"os"
	"path/filepath"
)

// Saved reads the outputs that a directory keeps, without its lock: a run may be writing
// there meanwhile. What cannot be read, such as an output that a compaction has removed, is
// missing. It is not safe for concurrent use.
type Saved struct{ out outputs }

// OpenSaved opens the outputs of a directory. Without a journal the error is
// fs.ErrNotExist.
func OpenSaved(dir string) (*Saved, error) {
	if _, err := headIn(dir); err != nil {
		return nil, err
	}
	s := &Saved{outputs{dir: directory{path: dir}}}
	s.open()
	return s, nil
}

// open opens the files that are there now.
func (s *Saved) open() {
	s.Close()
	firsts, _ := s.out.dir.outputs()
	for _, first := range firsts {
		if f, err := os.Open(filepath.Join(s.out.dir.path, outputName(first))); err == nil {
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
