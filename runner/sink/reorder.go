package sink

import (
	"errors"

	"crew/runner/spool"
	"crew/runner/task"
)

const (
	// chunkSize is how much of the log is packed into one buffer.
	chunkSize = 128 << 10
	// keepRing is the largest index that is kept while nothing is held.
	keepRing = 4096
)

// reorderBuffer holds results that are finished and not yet released. Small ones
// are packed, as they will be shown, into a log of chunks in the spool. Large
// ones keep their own outputs. It is not safe for concurrent use.
type reorderBuffer struct {
	store *spool.Store
	head  uint64 // the lowest ID that is not yet taken

	// ring is the index: the result of task id is at id modulo its length, which
	// is a power of two and exceeds the distance of the highest ID from head.
	ring  []extent
	held  int
	large map[uint64]*large

	chunks []chunk
	unused []uint32 // numbers of free chunks
	stage  []byte   // content of the chunk that is being filled
	filled uint32   // number of that chunk, or 0
	room   appender // reused by read, to save an allocation per task
}

// extent is the position of a small result in the log.
type extent struct {
	chunk    uint32 // counted from 1; 0 if nothing is held, inLarge if the result is large
	off      uint32
	out, err uint32 // bytes of stdout, and of stderr after them
}

const inLarge = ^uint32(0)

type chunk struct {
	live   int           // results in it that are not released
	kept   *spool.Buffer // nil while it is being filled
	memory []byte        // its content if the spool could not take it
}

func newReorderBuffer(store *spool.Store) *reorderBuffer {
	return &reorderBuffer{store: store, head: 1, large: map[uint64]*large{}}
}

// put holds a small result: out for stdout and err for stderr, at most chunkSize
// together. An error means that the spool is full. Even then the result is held,
// and more can be put.
func (h *reorderBuffer) put(id uint64, out, err []byte) error {
	n := len(out) + len(err)
	if n == 0 {
		return nil
	}
	var full error
	if len(h.stage)+n > chunkSize {
		full = h.seal()
	}
	if h.filled == 0 {
		h.filled = h.newChunk()
	}
	h.chunks[h.filled-1].live++
	*h.cell(id) = extent{h.filled, uint32(len(h.stage)), uint32(len(out)), uint32(len(err))}
	h.stage = append(append(h.stage, out...), err...)
	return full
}

// putLarge holds a large result and takes ownership of it.
func (h *reorderBuffer) putLarge(id uint64, l *large) {
	for _, o := range []task.Output{l.result.Stdout, l.result.Stderr} {
		if b, ok := o.(*spool.Buffer); ok {
			b.Spill()
		}
	}
	h.cell(id).chunk = inLarge
	h.large[id] = l
}

// newChunk returns the number of an empty chunk.
func (h *reorderBuffer) newChunk() uint32 {
	if n := len(h.unused); n > 0 {
		c := h.unused[n-1]
		h.unused = h.unused[:n-1]
		return c
	}
	h.chunks = append(h.chunks, chunk{})
	return uint32(len(h.chunks))
}

// seal moves the content of the chunk that is being filled to the spool.
func (h *reorderBuffer) seal() error {
	c := &h.chunks[h.filled-1]
	h.filled = 0
	b := h.store.Buffer()
	if _, err := b.Write(h.stage); err != nil {
		b.Close()
		c.memory, h.stage = h.stage, nil
		return err
	}
	b.Spill()
	c.kept, h.stage = b, h.stage[:0]
	return nil
}

// cell returns the index entry of a new result.
func (h *reorderBuffer) cell(id uint64) *extent {
	if id-h.head >= uint64(len(h.ring)) {
		h.grow(id)
	}
	h.held++
	return &h.ring[id&uint64(len(h.ring)-1)]
}

func (h *reorderBuffer) grow(id uint64) {
	size := uint64(max(64, len(h.ring)))
	for size <= id-h.head {
		size *= 2
	}
	ring := make([]extent, size)
	for i := range uint64(len(h.ring)) {
		old := h.head + i
		ring[old&(size-1)] = h.ring[old&uint64(len(h.ring)-1)]
	}
	h.ring = ring
}

// take moves head past id and returns what was held for it: a large result,
// which then belongs to the caller, or the bytes of a small one, appended to dst.
// The first out bytes of these are for stdout, the others for stderr.
func (h *reorderBuffer) take(id uint64, dst []byte) (p []byte, out int, l *large, err error) {
	defer func() { h.head = id + 1 }()
	if h.held == 0 || id-h.head >= uint64(len(h.ring)) {
		return dst, 0, nil, nil
	}
	cell := &h.ring[id&uint64(len(h.ring)-1)]
	at := *cell
	if at.chunk == 0 {
		return dst, 0, nil, nil
	}
	*cell = extent{}
	h.held--
	if h.held == 0 && len(h.ring) > keepRing {
		h.ring = nil
	}
	if at.chunk == inLarge {
		l = h.large[id]
		delete(h.large, id)
		return dst, 0, l, nil
	}
	p, err = h.read(at, dst)
	h.release(at.chunk)
	return p, int(at.out), nil, err
}

// appender is an io.Writer that appends to p, up to a length of max.
type appender struct {
	p   []byte
	max int
}

var errRoom = errors.New("more than there is room for")

// reset empties a, which takes limit bytes from now on.
func (a *appender) reset(limit int) { a.p, a.max = a.p[:0], limit }

// Write appends all of p, or nothing and returns errRoom.
func (a *appender) Write(p []byte) (int, error) {
	if len(a.p)+len(p) > a.max {
		return 0, errRoom
	}
	a.p = append(a.p, p...)
	return len(p), nil
}

// read appends a small result to dst.
func (h *reorderBuffer) read(at extent, dst []byte) ([]byte, error) {
	c := &h.chunks[at.chunk-1]
	off, n := int64(at.off), int64(at.out)+int64(at.err)
	switch {
	case at.chunk == h.filled:
		return append(dst, h.stage[off:off+n]...), nil
	case c.kept == nil:
		return append(dst, c.memory[off:off+n]...), nil
	}
	h.room = appender{dst, len(dst) + int(n)}
	err := c.kept.WriteRange(&h.room, off, n)
	return h.room.p, err
}

// release counts a result of a chunk as gone, and frees the chunk with the last
// one.
func (h *reorderBuffer) release(number uint32) {
	c := &h.chunks[number-1]
	if c.live--; c.live > 0 {
		return
	}
	if number == h.filled {
		h.stage = h.stage[:0]
		return
	}
	if c.kept != nil {
		c.kept.Close()
	}
	*c = chunk{}
	h.unused = append(h.unused, number)
}

// close drops everything.
func (h *reorderBuffer) close() {
	for _, l := range h.large {
		l.result.Close()
	}
	for _, c := range h.chunks {
		if c.kept != nil {
			c.kept.Close()
		}
	}
	*h = reorderBuffer{store: h.store, head: h.head, large: map[uint64]*large{}}
}
