package spool

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"sync"

	"crew/runner/decide/task"
)

// Buffer is one stream of output, a task.Output. One goroutine at a time writes it
// or reads it. Only ReadAt and Hold may be called by others meanwhile.
//
// Up to blockSize bytes are in memory while the budget allows, or else in blocks of that size,
// which are extents of the store's file.
type Buffer struct {
	store *Store
	mu    sync.Mutex // held to change what follows, and by ReadAt
	n     int64      // bytes in all

	head    []byte   // all of them, if there are no extents
	extents []int64  // the offsets in file of the blocks; only the last one may be partly filled
	file    *os.File // nil before the first extent
	closed  bool
	holds   int // how many readers that Hold returned are open
}

// Buffer returns a new, empty buffer. It allocates nothing else before the
// first Write.
func (s *Store) Buffer() *Buffer { return &Buffer{store: s} }

// Write appends p. If the file cannot take all of it, Write returns an error,
// and what was written until then stays readable.
func (b *Buffer) Write(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return 0, b.store.failed(fs.ErrClosed)
	case len(b.extents) == 0 && b.grow(len(p)):
		b.head = append(b.head, p...)
		n = len(p)
	default:
		if err = b.toFile(); err == nil {
			n, err = b.put(p, b.n)
		}
	}
	b.n += int64(n)
	return n, err
}

// grow makes room for n more bytes in memory. It returns false if they have to go to the file.
func (b *Buffer) grow(n int) bool {
	want := len(b.head) + n
	if want <= cap(b.head) {
		return true
	}
	// Most outputs come in one write and need exactly that. The others are
	// long, so they get far more.
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

// put writes p to the file, where at bytes are already.
func (b *Buffer) put(p []byte, at int64) (done int, err error) {
	for done < len(p) && err == nil {
		i, in := at/blockSize, at%blockSize
		if i == int64(len(b.extents)) {
			f, off, err := b.store.extent()
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

// toFile moves what is in memory to the file, if that can take it.
func (b *Buffer) toFile() error {
	if len(b.head) == 0 {
		return nil
	}
	_, err := b.put(b.head, 0)
	if err == nil {
		b.freeHead()
	} else {
		b.freeExtents()
	}
	return err
}

// Spill is for output that will not be read soon: if more than a quarter of the
// budget is in use, it moves what is in memory to the file, if that can take it.
func (b *Buffer) Spill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spill()
}

// spill is Spill for a caller that holds mu.
func (b *Buffer) spill() {
	if b.store.used.Load() > b.store.limit/4 {
		_ = b.toFile()
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

// WriteTo writes all of b to w. It consumes nothing.
func (b *Buffer) WriteTo(w io.Writer) (int64, error) { return b.copyTo(w, 0, b.n) }

// WriteRange writes the n bytes at offset off to w. It returns
// io.ErrUnexpectedEOF if b is shorter than that.
func (b *Buffer) WriteRange(w io.Writer, off, n int64) error {
	if off < 0 || n < 0 || off+n > b.n {
		return io.ErrUnexpectedEOF
	}
	_, err := b.copyTo(w, off, off+n)
	return err
}

// ReadAt implements io.ReaderAt for what has been written so far. It is safe for
// concurrent use, also with Write. io.EOF means that there is no more yet.
func (b *Buffer) ReadAt(p []byte, off int64) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(int64(len(p)), b.n-off)
	if off < 0 || n <= 0 {
		return 0, io.EOF
	}
	w := bytes.NewBuffer(p[:0])
	_, err := b.copyTo(w, off, off+n)
	if err == nil && n < int64(len(p)) {
		err = io.EOF
	}
	return w.Len(), err
}

// Tail returns a copy of the last n bytes, or of all if there are fewer.
func (b *Buffer) Tail(n int) ([]byte, error) {
	size := min(int64(n), b.n)
	w := bytes.NewBuffer(make([]byte, 0, size))
	_, err := b.copyTo(w, b.n-size, b.n)
	return w.Bytes(), err
}

// copyTo writes the bytes from offset off to offset end to w.
func (b *Buffer) copyTo(w io.Writer, off, end int64) (done int64, err error) {
	if b.closed && b.holds == 0 {
		return 0, b.store.failed(fs.ErrClosed)
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
		return 0, b.store.failed(err)
	}
	return w.Write(room[:n])
}

// Close gives memory and file space back to the store, once all readers that Hold
// returned are closed, too. It may be called again.
func (b *Buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.free()
	return nil
}

// free gives everything back if nobody will read it, and makes room in memory otherwise. The
// caller must hold mu.
func (b *Buffer) free() {
	if b.holds > 0 {
		b.spill()
		return
	}
	b.freeHead()
	b.freeExtents()
}

func (b *Buffer) freeExtents() {
	b.store.giveBack(b.extents...)
	b.extents = nil
}

// hold is a task.Live.
type hold struct {
	b      *Buffer
	closed bool // under b.mu
}

// Hold returns a reader of b, which stays readable until that is closed. It returns
// nil if b is closed already. It is safe for concurrent use.
func (b *Buffer) Hold() task.Live {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.holds++
	return &hold{b: b}
}

// ReadAt is the Buffer's.
func (h *hold) ReadAt(p []byte, off int64) (int, error) { return h.b.ReadAt(p, off) }

// Close gives up the hold. It may be called again. h must not be read afterwards.
func (h *hold) Close() error {
	h.b.mu.Lock()
	defer h.b.mu.Unlock()
	if h.closed {
		return nil
	}
	h.closed = true
	if h.b.holds--; h.b.closed {
		h.b.free()
	}
	return nil
}
