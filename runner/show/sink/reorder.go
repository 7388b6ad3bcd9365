package sink

import "crew/runner/exec/spool"

// packSize is the size of a buffer of packed results.
const packSize = 128 << 10

// reorderBuffer holds results that are finished but not released. Small ones are packed into shared
// spool buffers, in the form in which they will be shown. Others keep their own outputs. It is not
// safe for concurrent use.
type reorderBuffer struct {
	head   uint64          // lowest ID that is not released
	held   map[uint64]held // no closures: these would take a tenth of the time of a short record
	packed *packedResults  // takes the next small results
}

// held is a waiting result: a part of a buffer or, if show is not nil, a function that shows it.
type held struct {
	buffer  *packedResults
	offsets [3]uint32 // where the part of each stream begins, and the end
	show    func()
}

// packedResults is a buffer of small results.
type packedResults struct {
	*spool.Buffer
	unreleased int // results that are not released, plus one while the buffer takes more results
}

// bufferFor returns the buffer for a small result of about n bytes.
func (h *reorderBuffer) bufferFor(store *spool.Store, n int64) *packedResults {
	if h.packed.Len()+n > packSize {
		full := h.packed
		full.Spill()
		h.packed = &packedResults{Buffer: store.Buffer(), unreleased: 1}
		full.release()
	}
	return h.packed
}

// hold holds a result.
func (h *reorderBuffer) hold(id uint64, r held) {
	if h.held == nil {
		h.held = map[uint64]held{}
	}
	h.held[id] = r
}

// release moves head past id and returns the result held for it.
func (h *reorderBuffer) release(id uint64) held {
	h.head = id + 1
	r := h.held[id]
	if delete(h.held, id); len(h.held) == 0 {
		h.held = nil // because a map does not shrink
	}
	return r
}

// release gives up one result, and closes the buffer after the last one.
func (l *packedResults) release() {
	if l.unreleased--; l.unreleased == 0 {
		l.Close()
	}
}
