package sink

import "crew/runner/exec/spool"

// logSize is how much of small results is packed into one buffer.
const logSize = 128 << 10

// reorderBuffer holds results that are finished and not yet released. Small ones
// are packed, as they will be shown, into logs in the spool. Others keep their own
// outputs. It is not safe for concurrent use.
type reorderBuffer struct {
	head uint64          // the lowest ID that is not yet released
	held map[uint64]held // a closure for each would take a tenth of the time of a brief record
	log  *log            // takes the next small results
}

// held is a result that waits: as a part of a log or, if own is not nil, as what that shows.
type held struct {
	in  *log
	at  [3]uint32 // where each stream begins there, and the end
	own func()
}

// log is many small results.
type log struct {
	*spool.Buffer
	live int // that are not released, but for the latest log one more
}

// room returns the log for a small result of about n bytes.
func (h *reorderBuffer) room(store *spool.Store, n int64) *log {
	if h.log.Len()+n > logSize {
		full := h.log
		full.Spill()
		h.log = &log{Buffer: store.Buffer(), live: 1}
		full.free()
	}
	return h.log
}

// hold holds a result.
func (h *reorderBuffer) hold(id uint64, r held) {
	if h.held == nil {
		h.held = map[uint64]held{}
	}
	h.held[id] = r
}

// release moves head past id and returns what was held for it.
func (h *reorderBuffer) release(id uint64) held {
	h.head = id + 1
	r := h.held[id]
	if delete(h.held, id); len(h.held) == 0 {
		h.held = nil // a map does not shrink
	}
	return r
}

// free gives up a result in l.
func (l *log) free() {
	if l.live--; l.live == 0 {
		l.Close()
	}
}
