// Package spool holds the output of tasks until it is shown: in memory within one budget for the whole
// run, and beyond that in one unlinked temporary file that all outputs share. Package proc fills its
// buffers with captured output, and package sink with results that wait for their turn.
//
// If the file cannot take more, for example because the disk is full, what was written stays readable. Package
// proc kills the attempt, HandOver sets Result.Fault, and core.Core.Abort drains the run. The task is not
// retried, and a resumed run runs it again. On a worker of a hub the attempt ends as task.Lost.
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
	// maxIdleFile is how large the file may remain while nothing in it is in use.
	maxIdleFile = 16 << 20
)

type block = [blockSize]byte

// Store is the memory budget and the file of one run. It is safe for concurrent use by many buffers.
type Store struct {
	// configuration

	limit int64
	dir   string

	// state

	used   atomic.Int64 // bytes of the budget that buffers hold
	blocks sync.Pool    // of *block
	writes sync.Mutex   // held while writing to the file, so that at most one thread blocks there

	mu     sync.Mutex // guards the fields below
	file   *os.File   // nil until first needed
	closed bool
	end    int64   // offset of the first extent that was never allocated
	free   []int64 // offsets of extents that were released
}

// New returns a store that holds at most limit bytes in memory and the rest in an unnamed file in dir,
// or in os.TempDir() if dir is empty. The file is created when it is first needed.
func New(limit int64, dir string) *Store {
	if dir == "" {
		dir = os.TempDir()
	}
	return &Store{limit: limit, dir: dir, blocks: sync.Pool{New: func() any { return new(block) }}}
}

// Close closes the file and so discards the output in it. It may be called more than once.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	_ = s.file.Close() // may be nil
	return nil
}

// reserve takes n bytes from the budget. It returns false if less is left.
func (s *Store) reserve(n int64) bool {
	if s.used.Add(n) <= s.limit {
		return true
	}
	s.used.Add(-n)
	return false
}

// allocate allocates an extent of blockSize bytes of the file, and returns the file and the offset.
func (s *Store) allocate() (*os.File, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, 0, s.wrap(fs.ErrClosed)
	}
	if s.file == nil {
		var err error
		if s.file, err = kernel.CreateUnnamed(s.dir); err != nil {
			return nil, 0, s.wrap(err)
		}
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
		err = s.wrap(err)
	}
	return n, err
}

// release makes extents available again, to be allocated in the same order. A large file is truncated
// once nothing uses it, because the directory may be a tmpfs.
func (s *Store) release(extents ...int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, off := range slices.Backward(extents) {
		s.free = append(s.free, off)
	}
	if s.end > maxIdleFile && int64(len(s.free))*blockSize == s.end && s.file.Truncate(0) == nil {
		s.free, s.end = nil, 0
	}
}

// wrap adds the directory to an error of the file, and removes the file's name, which no longer exists.
func (s *Store) wrap(err error) error {
	return fmt.Errorf("keep output in %s: %w: set TMPDIR to another directory", s.dir, task.WithoutPath(err))
}
