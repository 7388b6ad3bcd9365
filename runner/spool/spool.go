// Package spool keeps the output of tasks until it is shown: in memory within
// one budget for the whole run, past it in one unlinked temporary file that all
// outputs share.
//
// It is a room of its own beside the house plan because two others need it:
// proc fills buffers, and sink holds rendered results back under --keep-order.
package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

const (
	// blockSize is the most that a buffer keeps in memory and the size of an
	// extent of the file, so that either fits into the other.
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
	blocks sync.Pool    // of *block: full heads, and room to copy through

	mu     sync.Mutex
	file   *os.File // nil until first needed
	closed bool
	end    int64   // offset of the first extent that was never handed out
	free   []int64 // offsets of extents that came back
}

// New makes a store that keeps at most limit bytes in memory and the rest in
// a file in dir, or in os.TempDir where dir is empty. The file is made when it
// is first needed and never has a name that outlives its making.
func New(limit int64, dir string) *Store {
	if dir == "" {
		dir = os.TempDir()
	}
	return &Store{limit: limit, dir: dir}
}

// Close closes the file, and with it goes what buffers kept there. It may be
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

// reserve takes n bytes of the budget if they are there.
func (s *Store) reserve(n int64) bool {
	if s.used.Add(n) <= s.limit {
		return true
	}
	s.used.Add(-n)
	return false
}

// extent hands out blockSize bytes of the file and the file itself.
func (s *Store) extent() (*os.File, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, 0, s.failed(fs.ErrClosed)
	}
	if s.file == nil {
		f, err := Unnamed(s.dir)
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

// giveBack takes extents back, to be handed out again in their order. A large
// file that nothing uses any more is cut, because the directory may well be
// memory itself.
func (s *Store) giveBack(extents []int64) {
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

func (s *Store) block() *block {
	if b, ok := s.blocks.Get().(*block); ok {
		return b
	}
	return new(block)
}

// failed says that the file could not take or give bytes, without the name
// that the file no longer has.
func (s *Store) failed(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("keep output in %s: %w", s.dir, err)
}
