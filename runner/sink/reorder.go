package sink

import (
	"bytes"

	"crew/runner/spool"
	"crew/runner/task"
)

const (
	// chunkSize is how much of the log is packed into one buffer.
	chunkSize = 128 << 10
	// keepIndex is the largest index that is kept while nothing is held.
	keepIndex = 4096
)

// reorderBuffer holds results that are finished and not yet released. Small ones
// are packed, as they will be shown, into a log of chunks in the spool. Large
// ones keep their own outputs. It is not safe for concurrent use.
type reorderBuffer struct {
	store *spool.Store
	head  uint64 // the lowest ID that is not yet taken

	held    map[uint64]extent
	most    int    // so many were held since held was made
	filling *chunk // takes the next small results
}

// extent is the position of a result in the log.
type extent struct {
	chunk    *chunk
	off      uint32
	out, err uint32 // bytes of stdout, and of stderr after them
}

// chunk is a part of the log: many small results, or a large one.
type chunk struct {
	live   int           // small results in it that are not released
	kept   *spool.Buffer // their text
	memory []byte        // the same before it is in the spool, or if the spool could not take it
	large  *large        // nil for small ones
}

func newReorderBuffer(store *spool.Store) *reorderBuffer {
	return &reorderBuffer{store: store, head: 1, held: map[uint64]extent{}, filling: &chunk{}}
}

// put holds a small result: out for stdout and err for stderr. An error means that the spool is full. Even then the result is held,
// and more can be put.
func (h *reorderBuffer) put(id uint64, out, err []byte) error {
	n := len(out) + len(err)
	if n == 0 {
		return nil
	}
	var full error
	if len(h.filling.memory)+n > chunkSize {
		full = h.seal()
	}
	c := h.filling
	h.hold(id, extent{c, uint32(len(c.memory)), uint32(len(out)), uint32(len(err))})
	c.live++
	c.memory = append(append(c.memory, out...), err...)
	return full
}

// putLarge holds a large result and takes ownership of it.
func (h *reorderBuffer) putLarge(id uint64, l *large) {
	for _, o := range []task.Output{l.result.Stdout, l.result.Stderr} {
		if b, ok := o.(*spool.Buffer); ok {
			b.Spill()
		}
	}
	h.hold(id, extent{chunk: &chunk{large: l}})
}

// seal moves the content of the chunk that is being filled to the spool.
func (h *reorderBuffer) seal() error {
	c := h.filling
	h.filling = &chunk{}
	b := h.store.Buffer()
	if _, err := b.Write(c.memory); err != nil {
		b.Close()
		return err
	}
	b.Spill()
	c.kept, h.filling.memory, c.memory = b, c.memory[:0], nil
	return nil
}

func (h *reorderBuffer) hold(id uint64, at extent) {
	h.held[id] = at
	h.most = max(h.most, len(h.held))
}

// take moves head past id and returns what was held for it: a large result,
// which then belongs to the caller, or the bytes of a small one, appended to dst.
// The first out bytes of these are for stdout, the others for stderr.
func (h *reorderBuffer) take(id uint64, dst *bytes.Buffer) (out int, l *large, err error) {
	h.head = id + 1
	at, held := h.held[id]
	if !held {
		return 0, nil, nil
	}
	if delete(h.held, id); len(h.held) == 0 && h.most > keepIndex {
		h.held, h.most = map[uint64]extent{}, 0
	}
	if at.chunk.large != nil {
		return 0, at.chunk.large, nil
	}
	off, n := int64(at.off), int64(at.out)+int64(at.err)
	if kept := at.chunk.kept; kept != nil {
		err = kept.WriteRange(dst, off, n)
	} else {
		dst.Write(at.chunk.memory[off : off+n])
	}
	h.release(at.chunk)
	return int(at.out), nil, err
}

// release counts a result of a chunk as gone, and frees the chunk with the last
// one.
func (h *reorderBuffer) release(c *chunk) {
	if c.live--; c.live > 0 {
		return
	}
	c.memory = c.memory[:0]
	if c.kept != nil {
		c.kept.Close()
	}
}
