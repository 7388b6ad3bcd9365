package sink

import (
	"errors"

	"crew/runner/spool"
	"crew/runner/task"
)

const (
	// chunkSize is how much of the log is packed into one buffer.
	chunkSize = 128 << 10
	// keepRing is the length of index that is kept when nothing is held.
	keepRing = 4096
)

// reorderBuffer keeps results that are finished and not yet released. Small ones
// are packed as they are to be shown, one after another, into a log of chunks;
// large ones are kept by their handles. Those of IDs below head are gone. It is
// used by one goroutine.
type reorderBuffer struct {
	store *spool.Store
	head  uint64

	// ring is the index: the result of task id is at id modulo its length, which
	// is a power of two and more than the distance of the highest ID from head.
	ring  []extent
	held  int
	large map[uint64]*large

	chunks []chunk
	unused []uint32 // numbers of chunks that are free
	stage  []byte   // the chunk that is being filled
	filled uint32   // its number, or 0
	room   appender // what is read from the spool; here to be no allocation a task
}

// extent is where in the log a small result is.
type extent struct {
	chunk    uint32 // from 1; 0 where nothing is held, inLarge where it is large
	off      uint32
	out, err uint32 // bytes of stdout, and of stderr after them
}

const inLarge = ^uint32(0)

type chunk struct {
	live   int           // results in it that are not released
	kept   *spool.Buffer // nil while it is the stage
	memory []byte        // its bytes where the buffer could not take them
}

// large is a result that is kept by its handles, which it owns.
type large struct {
	out, err task.Output // nil where there is nothing to show
	tag      string      // prefix of its lines; empty without tags, or where they are there already

	// with JSON

	task   *task.Task
	result *task.Result
}

func (l *large) close() {
	if l.result != nil {
		l.result.Close()
	}
	for _, o := range []task.Output{l.out, l.err} {
		if o != nil {
			o.Close()
		}
	}
}

// spill moves what l keeps in memory to the file.
func (l *large) spill() {
	for _, o := range []task.Output{l.out, l.err} {
		if b, ok := o.(*spool.Buffer); ok {
			b.Spill()
		}
	}
}

func newReorderBuffer(store *spool.Store) *reorderBuffer {
	return &reorderBuffer{store: store, head: 1, large: map[uint64]*large{}}
}

// put keeps a small result: out for stdout and err for stderr, chunkSize
// together at most. An error means that the spool is full; nothing is lost by
// it, and more can be put.
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
		h.filled = h.number()
	}
	c := &h.chunks[h.filled-1]
	c.live++
	p := h.cell(id)
	*p = extent{h.filled, uint32(len(h.stage)), uint32(len(out)), uint32(len(err))}
	h.stage = append(append(h.stage, out...), err...)
	return full
}

// putLarge keeps a large result and owns it from now on.
func (h *reorderBuffer) putLarge(id uint64, l *large) {
	l.spill()
	h.cell(id).chunk = inLarge
	h.large[id] = l
}

// number is that of a new chunk.
func (h *reorderBuffer) number() uint32 {
	if n := len(h.unused); n > 0 {
		c := h.unused[n-1]
		h.unused = h.unused[:n-1]
		return c
	}
	h.chunks = append(h.chunks, chunk{})
	return uint32(len(h.chunks))
}

// seal ends the stage's chunk and hands its bytes to the spool.
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

// cell is where the extent of a new result goes.
func (h *reorderBuffer) cell(id uint64) *extent {
	if id-h.head >= uint64(len(h.ring)) {
		h.grow(id)
	}
	h.held++
	return &h.ring[id&uint64(len(h.ring)-1)]
}

func (h *reorderBuffer) grow(id uint64) {
	size := max(64, len(h.ring))
	for uint64(size) <= id-h.head {
		size *= 2
	}
	ring := make([]extent, size)
	for i := range uint64(len(h.ring)) {
		old := h.head + i
		ring[old&uint64(size-1)] = h.ring[old&uint64(len(h.ring)-1)]
	}
	h.ring = ring
}

// take moves head past id and returns what was held for it: a large result,
// which is the caller's now, or the bytes of a small one, appended to dst, the
// first out of them for stdout.
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

// appender is an io.Writer onto a slice.
type appender struct {
	p   []byte
	max int // what it takes; more is errRoom
}

var errRoom = errors.New("more than there is room for")

func (a *appender) Write(p []byte) (int, error) {
	if len(a.p)+len(p) > a.max {
		return 0, errRoom
	}
	a.p = append(a.p, p...)
	return len(p), nil
}

func (h *reorderBuffer) read(at extent, dst []byte) ([]byte, error) {
	c := &h.chunks[at.chunk-1]
	off, n := int64(at.off), int64(at.out)+int64(at.err)
	switch {
	case at.chunk == h.filled:
		return append(dst, h.stage[off:off+n]...), nil
	case c.kept == nil:
		return append(dst, c.memory[off:off+n]...), nil
	}
	h.room.p, h.room.max = dst, len(dst)+int(n)
	err := c.kept.WriteRange(&h.room, off, n)
	return h.room.p, err
}

// release counts a result of a chunk as gone, and with the last one the chunk.
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
		l.close()
	}
	for _, c := range h.chunks {
		if c.kept != nil {
			c.kept.Close()
		}
	}
	*h = reorderBuffer{store: h.store, head: h.head, large: map[uint64]*large{}}
}
