package spool

import (
	"io"
	"io/fs"
	"os"
	"sync"
)

// Buffer is one stream of output: written by one goroutine, then read by one
// at a time as often as wanted; ReadAt may be called by others meanwhile. It is a
// task.Output. Its first bytes are in memory where the budget allowed it, the
// others in the store's file, and the last ones in memory again until they fill
// an extent of that.
type Buffer struct {
	store *Store
	mu    sync.Mutex // held by whoever changes what follows, and by ReadAt
	n     int64      // length of all
	first int        // length of the part that was written to memory
	// head is that part. It is nil after Spill, when front is where it went.
	head    []byte
	front   int64
	file    *os.File // set once anything is in the file
	extents []int64  // offsets of what follows the first part, blockSize each
	full    bool     // the first part does not grow any more
	tail    *block   // what follows the extents; nil where that went to the last of them
	closed  bool
}

// Buffer makes an empty buffer. Nothing else is allocated before the first
// byte comes.
func (s *Store) Buffer() *Buffer { return &Buffer{store: s} }

// Write appends p. An error means that the file could not take all of it; what
// was written before stays readable.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, b.store.failed(fs.ErrClosed)
	}
	done := 0
	if !b.full {
		done = b.toMemory(p)
	}
	for done < len(p) {
		n, err := b.toFile(p[done:])
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// Room is where the next bytes can be put for Grew, without a copy of their
// own; empty while the buffer is small, or for a moment, when Write makes more.
func (b *Buffer) Room() []byte {
	switch {
	case b.closed:
		return nil
	case !b.full && cap(b.head) == blockSize:
		return b.head[len(b.head):blockSize]
	case b.tail != nil:
		return b.tail[b.inTail():]
	}
	return nil
}

// Grew says that n bytes more are in what Room returned.
func (b *Buffer) Grew(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n += int64(n)
	if !b.full {
		b.head = b.head[:len(b.head)+n]
		b.first += n
	}
}

// toMemory appends to the first part what may go there.
func (b *Buffer) toMemory(p []byte) int {
	if want := len(b.head) + len(p); want > cap(b.head) {
		b.grow(want)
	}
	n := min(len(p), cap(b.head)-len(b.head))
	b.head = append(b.head, p[:n]...)
	b.first += n
	b.n += int64(n)
	b.full = n < len(p)
	return n
}

// grow makes room for want bytes in memory: exactly that at first, since most
// outputs come in one write, then far more, since the others are long.
func (b *Buffer) grow(want int) {
	size := min(max(want, 32*cap(b.head)), blockSize)
	if size == cap(b.head) || !b.store.reserve(int64(size-cap(b.head))) {
		return
	}
	var head []byte
	if size == blockSize {
		head = b.store.block()[:0]
	} else {
		head = make([]byte, 0, size)
	}
	b.head = append(head, b.head...)
}

// toFile puts the start of p where it belongs behind the first part: into the
// tail where the budget has room for one, else straight into the extent that the
// end of b is in.
func (b *Buffer) toFile(p []byte) (int, error) {
	if b.tail != nil && b.inTail() == blockSize {
		if err := b.flush(); err != nil {
			return 0, err
		}
	}
	at := b.n - int64(b.first)
	in := at % blockSize
	if in == 0 && b.tail == nil && b.store.reserve(blockSize) {
		b.tail = b.store.block()
	}
	if b.tail != nil {
		n := copy(b.tail[in:], p)
		b.n += int64(n)
		return n, nil
	}
	if in == 0 {
		if err := b.extend(); err != nil {
			return 0, err
		}
	}
	p = p[:min(int64(len(p)), blockSize-in)]
	n, err := b.file.WriteAt(p, b.extents[at/blockSize]+in)
	b.n += int64(n)
	if err != nil {
		return n, b.store.failed(err)
	}
	return n, nil
}

// inTail is how much of the tail is filled.
func (b *Buffer) inTail() int {
	return int(b.n - int64(b.first) - int64(len(b.extents))*blockSize)
}

// flush moves the tail into an extent of the file. Where that fails it stays.
func (b *Buffer) flush() error {
	n := b.inTail()
	if err := b.extend(); err != nil {
		return err
	}
	last := len(b.extents) - 1
	if _, err := b.file.WriteAt(b.tail[:n], b.extents[last]); err != nil {
		b.store.giveBack(b.extents[last:])
		b.extents = b.extents[:last]
		return b.store.failed(err)
	}
	return nil
}

// extend takes another extent.
func (b *Buffer) extend() error {
	f, off, err := b.store.extent()
	if err != nil {
		return err
	}
	b.file = f
	b.extents = append(b.extents, off)
	return nil
}

// Spill is for output that will not be read soon: where more than a quarter of
// the budget is in use, it moves what is in memory to the file. What that cannot
// take stays.
func (b *Buffer) Spill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.store.used.Load() <= b.store.limit/4 {
		return
	}
	if b.tail != nil && b.flush() == nil {
		b.freeTail()
	}
	if len(b.head) == 0 {
		return
	}
	f, off, err := b.store.extent()
	if err != nil {
		return
	}
	if _, err := f.WriteAt(b.head, off); err != nil {
		b.store.giveBack([]int64{off})
		return
	}
	b.file, b.front, b.full = f, off, true
	b.freeHead()
}

func (b *Buffer) freeHead() {
	b.store.used.Add(-int64(cap(b.head)))
	if cap(b.head) == blockSize {
		b.store.blocks.Put((*block)(b.head[:blockSize]))
	}
	b.head = nil
}

func (b *Buffer) freeTail() {
	if b.tail != nil {
		b.store.used.Add(-blockSize)
		b.store.blocks.Put(b.tail)
		b.tail = nil
	}
}

// Len is the number of bytes.
func (b *Buffer) Len() int64 { return b.n }

// WriteTo writes all of b to w; it may be called again.
func (b *Buffer) WriteTo(w io.Writer) (int64, error) {
	return b.write(w, 0, b.n)
}

// WriteRange writes the n bytes from offset off to w. It fails with
// io.ErrUnexpectedEOF where b does not hold them.
func (b *Buffer) WriteRange(w io.Writer, off, n int64) error {
	if off < 0 || n < 0 || off+n > b.n {
		return io.ErrUnexpectedEOF
	}
	_, err := b.write(w, off, n)
	return err
}

// ReadAt reads what was written so far, as io.ReaderAt has it; io.EOF then says
// that there is no more yet. It is safe for concurrent use.
func (b *Buffer) ReadAt(p []byte, off int64) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, b.store.failed(fs.ErrClosed)
	}
	t := tail{p: p[:0]}
	n := min(int64(len(p)), b.n-off)
	if off < 0 || n <= 0 {
		return 0, io.EOF
	}
	_, err := b.write(&t, off, n)
	if err == nil && n < int64(len(p)) {
		err = io.EOF
	}
	return len(t.p), err
}

// Tail is at most the last n bytes, in memory of the caller's own.
func (b *Buffer) Tail(n int) ([]byte, error) {
	p := make([]byte, min(int64(n), b.n))
	_, err := b.ReadAt(p, b.n-int64(len(p)))
	if err == io.EOF {
		err = nil
	}
	return p, err
}

type tail struct{ p []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.p = append(t.p, p...)
	return len(p), nil
}

func (b *Buffer) write(w io.Writer, off, n int64) (int64, error) {
	if b.closed {
		return 0, b.store.failed(fs.ErrClosed)
	}
	var done int64
	for done < n {
		var k int
		var err error
		in, filed := off+done, int64(b.first)+int64(len(b.extents))*blockSize
		switch {
		case in < int64(len(b.head)):
			k, err = w.Write(b.head[in:min(int64(len(b.head)), off+n)])
		case b.tail != nil && in >= filed:
			k, err = w.Write(b.tail[in-filed : off+n-filed])
		default:
			k, err = b.copyFile(w, in, n-done)
		}
		done += int64(k)
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// copyFile writes to w what stands at off without a break in the file, n bytes
// at most.
func (b *Buffer) copyFile(w io.Writer, off, n int64) (int, error) {
	at, n := b.place(off, n)
	room := b.store.block()
	defer b.store.blocks.Put(room)
	p := room[:n]
	if k, err := b.file.ReadAt(p, at); k < len(p) {
		return 0, b.store.failed(err)
	}
	return w.Write(p)
}

// place is where in the file the byte at off stands, and how many of the n from
// there stand beside it.
func (b *Buffer) place(off, n int64) (at, run int64) {
	first := int64(b.first)
	if off < first {
		return b.front + off, min(n, first-off)
	}
	in := (off - first) % blockSize
	return b.extents[(off-first)/blockSize] + in, min(n, blockSize-in)
}

// Close gives memory and file space back for others to use. It may be called
// again.
func (b *Buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	if b.head == nil && b.first > 0 {
		b.extents = append(b.extents, b.front)
	}
	b.freeHead()
	b.freeTail()
	if len(b.extents) > 0 {
		b.store.giveBack(b.extents)
		b.extents = nil
	}
	return nil
}
