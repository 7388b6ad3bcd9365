// Package spool keeps the output of tasks until it is shown: in memory within
// one budget for the whole run, and beyond that in one unlinked temporary file
// that all outputs share. Package proc fills its buffers with captured output,
// and package sink with results that wait for their turn.
package spool

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

const (
	// blockSize is the unit in which buffers use memory and the file.
	blockSize = 128 << 10
	// keepFile is how large the file may stay once nothing in it is in use.
	keepFile = 16 << 20
)

type block = [blockSize]byte

// Store is the memory budget and the file of one run. It is safe for
// concurrent use by many buffers.
type Store struct {
	// configuration

	limit int64
	dir   string

	// state

	used   atomic.Int64 // bytes of the budget that buffers hold
	blocks sync.Pool    // of *block
	writes sync.Mutex   // held to write to the file, so that no more than one thread blocks there

	mu     sync.Mutex // guards the fields below
	file   *os.File   // nil until first needed
	closed bool
	end    int64   // offset of the first extent that was never handed out
	free   []int64 // offsets of extents that came back
}

// New returns a store that keeps at most limit bytes in memory and the rest in
// an unnamed file in dir, or in os.TempDir() if dir is empty. The file is
// created when it is first needed.
func New(limit int64, dir string) *Store {
	if dir == "" {
		dir = os.TempDir()
	}
	return &Store{limit: limit, dir: dir, blocks: sync.Pool{New: func() any { return new(block) }}}
}

// Close closes the file, which discards what buffers kept there. It may be
// called again.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}

// reserve takes n bytes of the budget if that many are left.
func (s *Store) reserve(n int64) bool {
	if s.used.Add(n) <= s.limit {
		return true
	}
	s.used.Add(-n)
	return false
}

// extent hands out blockSize bytes of the file.
func (s *Store) extent() (*os.File, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, 0, s.failed(fs.ErrClosed)
	}
	if s.file == nil {
		f, err := kernel.CreateUnnamed(s.dir)
		if err != nil {
			return nil, 0, s.failed(err)
		}
		s.file = f
	}
	if n := len(s.free); n > 0 {
		off := s.free[n-1]
		s.free = s.free[:n-1]
		return s.file, off, nil
	}
	off := s.end
	s.end += blockSize
	return s.file, off, nil
}

// write writes p to the file at an offset.
func (s *Store) write(f *os.File, p []byte, off int64) (int, error) {
	s.writes.Lock()
	defer s.writes.Unlock()
	n, err := f.WriteAt(p, off)
	if err != nil {
		err = s.failed(err)
	}
	return n, err
}

// giveBack takes extents back, to be handed out again in their order. A large
// file is truncated once nothing uses it, since the directory may be a tmpfs.
func (s *Store) giveBack(extents ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, off := range slices.Backward(extents) {
		s.free = append(s.free, off)
	}
	if s.file != nil && s.end > keepFile && int64(len(s.free))*blockSize == s.end {
		if s.file.Truncate(0) == nil {
			s.free, s.end = nil, 0
		}
	}
}

// failed adds the directory to an error of the file, and removes the file's
// name, which no longer exists.
func (s *Store) failed(err error) error {
	return fmt.Errorf("keep output in %s: %w: set TMPDIR to another directory", s.dir, task.WithoutPath(err))
}
