package input

import (
	"crew/runner/task"
	"fmt"
	"io"
	"slices"
	"sync"
)

// buffers are memory for blocks, which is used again and again. They are safe for
// concurrent use.
type buffers struct {
	mu    sync.Mutex
	spare []*buffer
	least int // size of one
	usual int // size of the latest block; 0 if that is less than least
}

// mostBuffer is the size of the largest buffer: behind a block comes a boundary.
const mostBuffer = MaxBlock + 1<<20

// buffer holds one block or more, and what has been read of the next one.
type buffer struct {
	bytes []byte
	users int
	free  func() // ends the use by a block
}

// get returns a buffer for at least n bytes, with one user.
func (s *buffers) get(n int) *buffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := max(n, s.least, s.usual)
	if i := slices.IndexFunc(s.spare, func(b *buffer) bool { return len(b.bytes) >= least }); i >= 0 {
		b := s.spare[i]
		s.spare = slices.Delete(s.spare, i, i+1)
		b.users = 1
		return b
	}
	b := &buffer{bytes: make([]byte, max(least, s.usual+s.usual/8)), users: 1}
	b.free = func() { s.drop(b) }
	return b
}

// took says that a block of n bytes was taken from b.
func (s *buffers) took(b *buffer, n int) {
	s.mu.Lock()
	b.users++
	if s.usual = n; n < s.least {
		s.usual = 0
	}
	s.mu.Unlock()
}

// drop ends a use. A buffer of unusual size is left to the garbage collector.
func (s *buffers) drop(b *buffer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	usual := max(s.least, s.usual)
	if b.users--; b.users == 0 && usual <= len(b.bytes) && len(b.bytes) <= 4*usual {
		s.spare = append(s.spare, b)
	}
}

// inMemory is a stream that is read into buffers.
type inMemory struct {
	name string
	rd   io.Reader
	from *buffers
	err  error // ended rd

	buf        *buffer // nil at first
	begin, end int     // in buf: the next block, as far as it has been read
	off        int64   // of the next block in the stream
}

func (m *inMemory) last(off int64) (int64, error) {
	_, err := m.at(off, 1)
	return m.off + int64(m.end-m.begin), err
}

func (m *inMemory) at(off int64, n int) ([]byte, error) {
	skip := int(off - m.off)
	for m.end-m.begin < skip+n && m.err == nil {
		m.read(skip + n)
	}
	switch {
	case m.err != nil && m.err != io.EOF:
		return nil, fmt.Errorf("read %s: %w", m.name, task.WithoutPath(m.err))
	case m.end-m.begin < skip:
		return nil, nil
	}
	return m.buf.bytes[m.begin+skip : m.end], nil
}

// read reads what is there, but not much more than the n bytes that the next block is
// to have at least.
func (m *inMemory) read(n int) {
	if n > mostBuffer {
		m.err = fmt.Errorf("no record ends in 1 GiB from byte %d on: tell where with --recend, or give a regular file with -a", m.off)
		return
	}
	if m.buf == nil || m.begin+n > len(m.buf.bytes) {
		m.move(n)
	}
	room := m.buf.bytes[m.end:min(len(m.buf.bytes), m.begin+max(n, m.end-m.begin+2*span))]
	got := 0
	got, m.err = io.ReadAtLeast(m.rd, room, 1)
	m.end += got
}

// move moves what has been read of the next block to a buffer with room for n bytes.
func (m *inMemory) move(n int) {
	old := m.buf
	if old != nil && m.begin == 0 {
		n = max(n, min(2*len(old.bytes), mostBuffer))
	}
	m.buf = m.from.get(n)
	if old != nil {
		m.end = copy(m.buf.bytes, old.bytes[m.begin:m.end])
		m.from.drop(old)
	}
	m.begin = 0
}

// take returns the next n bytes, which are a block, and what frees them.
func (m *inMemory) take(n int) (text []byte, free func()) {
	text = m.buf.bytes[m.begin : m.begin+n]
	m.begin += n
	m.off += int64(n)
	m.from.took(m.buf, n)
	return text, m.buf.free
}
