package input

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"crew/runner/decide/task"
)

// buffers are memory for blocks, which is used again. They are safe for concurrent use.
type buffers struct {
	pool sync.Pool // of *buffer
	size int       // of one, unless a block needs more
}

// mostBuffer is the size of the largest buffer: behind a block comes a boundary.
const mostBuffer = MaxBlock + 1<<20

// largeBuffer is the size beyond which a buffer is not used for much smaller blocks.
const largeBuffer = 16 << 20

// buffer holds one block or more, and what has been read of the next one.
type buffer struct {
	bytes []byte
	users atomic.Int32
	free  func() // ends a use
}

// get returns a buffer for at least n bytes, with one user.
func (s *buffers) get(n int) *buffer {
	b, _ := s.pool.Get().(*buffer)
	if b == nil || len(b.bytes) < n || len(b.bytes) > max(4*n, 4*s.size, largeBuffer) {
		b = &buffer{bytes: make([]byte, max(n, s.size))}
		b.free = func() {
			if b.users.Add(-1) == 0 {
				s.pool.Put(b)
			}
		}
	}
	b.users.Store(1)
	return b
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
		old.free()
	}
	m.begin = 0
}

// take returns the next n bytes, which are a block, and what frees them.
func (m *inMemory) take(n int) (text []byte, free func()) {
	text = m.buf.bytes[m.begin : m.begin+n]
	m.begin += n
	m.off += int64(n)
	m.buf.users.Add(1)
	return text, m.buf.free
}
