package spool

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"sync"

	"crew/runner/decide/task"
)

// Buffer holds one stream of output. It is a task.Output. Only one goroutine at a time may write or
// read it, except that ReadAt and Hold may be called concurrently.
//
// The bytes are in memory while there are at most blockSize of them and the budget allows it. Otherwise
// they are in blocks of that size, which are extents of the store's file.
type Buffer struct {
	store *Store
	mu    sync.Mutex // held to change the fields below, and by ReadAt
	n     int64      // total number of bytes

	head    []byte   // all bytes, if there are no extents
	extents []int64  // offsets of the blocks in file; only the last block may be partly filled
	file    *os.File // nil before the first extent
	closed  bool
	holds   int // number of open readers returned by Hold
}

// Buffer returns a new, empty buffer. It allocates nothing more before the first Write.
func (s *Store) Buffer() *Buffer { return &Buffer{store: s} }

// Write appends p. If the file cannot take all of p, Write returns an error, and the bytes written
// until then stay readable.
func (b *Buffer) Write(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return 0, b.store.wrap(fs.ErrClosed)
	case len(b.extents) == 0 && b.grow(len(p)):
		b.head = append(b.head, p...)
		n = len(p)
	default:
		if err = b.moveToFile(); err == nil {
			n, err = b.writeFile(p, b.n)
		}
	}
	b.n += int64(n)
	return n, err
}

// grow makes room for n more bytes in memory. It returns false if they must go to the file.
func (b *Buffer) grow(n int) bool {
	want := len(b.head) + n
	if want <= cap(b.head) {
		return true
	}
	// Most outputs come in one write and need exactly its size. The others are long, so they
	// get much more.
	size := min(max(want, 32*cap(b.head)), blockSize)
	if want > size || !b.store.reserve(int64(size-cap(b.head))) {
		return false
	}
	var head []byte
	if size == blockSize {
		head = b.store.blocks.Get().(*block)[:0]
	} else {
		head = make([]byte, 0, size)
	}
	b.head = append(head, b.head...)
	return true
}

// writeFile writes p to the file, which already holds at bytes of b.
func (b *Buffer) writeFile(p []byte, at int64) (done int, err error) {
	for done < len(p) && err == nil {
		i, in := at/blockSize, at%blockSize
		if i == int64(len(b.extents)) {
			f, off, err := b.store.allocate()
			if err != nil {
				return done, err
			}
			b.file, b.extents = f, append(b.extents, off)
		}
		var k int
		k, err = b.store.write(b.file, p[done:min(int64(len(p)), int64(done)+blockSize-in)], b.extents[i]+in)
		done += k
		at += int64(k)
	}
	return done, err
}

// moveToFile moves the bytes in memory to the file. After an error they stay in memory.
func (b *Buffer) moveToFile() error {
	if len(b.head) == 0 {
		return nil
	}
	_, err := b.writeFile(b.head, 0)
	if err == nil {
		b.freeHead()
	} else {
		b.freeExtents()
	}
	return err
}

// Spill is for output that will not be read soon. If more than a quarter of the budget is in use, it
// moves the bytes in memory to the file; they stay in memory if that fails.
func (b *Buffer) Spill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spillLocked()
}

// spillLocked is Spill. The caller must hold mu.
func (b *Buffer) spillLocked() {
	if b.store.used.Load() > b.store.limit/4 {
		_ = b.moveToFile()
	}
}

func (b *Buffer) freeHead() {
	b.store.used.Add(-int64(cap(b.head)))
	if cap(b.head) == blockSize {
		b.store.blocks.Put((*block)(b.head[:blockSize]))
	}
	b.head = nil
}

// Len returns the number of bytes in b.
func (b *Buffer) Len() int64 { return b.n }

// WriteTo writes all of b to w. It does not consume b.
func (b *Buffer) WriteTo(w io.Writer) (int64, error) { return b.WriteRange(w, 0, b.n) }

// ReadAt implements io.ReaderAt for the bytes written so far. It is safe for concurrent use, also with
// Write. io.EOF means that there are no more bytes yet.
func (b *Buffer) ReadAt(p []byte, off int64) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(int64(len(p)), b.n-off)
	if n <= 0 {
		return 0, io.EOF
	}
	w := bytes.NewBuffer(p[:0])
	_, err := b.WriteRange(w, off, off+n)
	if err == nil && n < int64(len(p)) {
		err = io.EOF
	}
	return w.Len(), err
}

// WriteRange writes the bytes from offset off to offset end to w. b must have them.
func (b *Buffer) WriteRange(w io.Writer, off, end int64) (done int64, err error) {
	if b.closed && b.holds == 0 {
		return 0, b.store.wrap(fs.ErrClosed)
	}
	for at := off; at < end && err == nil; at = off + done {
		var k int
		if in := at % blockSize; len(b.extents) == 0 {
			k, err = w.Write(b.head[at:end])
		} else {
			k, err = b.copyExtent(w, b.extents[at/blockSize]+in, min(end-at, blockSize-in))
		}
		done += int64(k)
	}
	return done, err
}

// copyExtent writes n bytes of the file to w.
func (b *Buffer) copyExtent(w io.Writer, off, n int64) (int, error) {
	room := b.store.blocks.Get().(*block)
	defer b.store.blocks.Put(room)
	if k, err := b.file.ReadAt(room[:n], off); k < int(n) {
		return 0, b.store.wrap(err)
	}
	return w.Write(room[:n])
}

// Close releases the memory and file space of b once all readers returned by Hold are closed, too. It
// may be called more than once.
func (b *Buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.freeLocked()
	return nil
}

// freeLocked releases everything if there are no readers left, and otherwise spills. The caller must
// hold mu.
func (b *Buffer) freeLocked() {
	if b.holds > 0 {
		b.spillLocked()
		return
	}
	b.freeHead()
	b.freeExtents()
}

func (b *Buffer) freeExtents() {
	b.store.release(b.extents...)
	b.extents = nil
}

// hold is a reader returned by Hold, a task.Live.
type hold struct {
	b      *Buffer
	closed bool // protected by b.mu
}

// Hold returns a reader of b. b stays readable until the reader is closed, even after Close. Hold
// returns nil if b is closed already. It is safe for concurrent use.
func (b *Buffer) Hold() task.Live {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.holds++
	return &hold{b: b}
}

// ReadAt reads from the buffer.
func (h *hold) ReadAt(p []byte, off int64) (int, error) { return h.b.ReadAt(p, off) }

// Close releases the hold. It may be called more than once. h must not be read afterwards.
func (h *hold) Close() error {
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	if h.b.holds--; h.b.closed {
		h.b.freeLocked()
	}
	return nil
}
