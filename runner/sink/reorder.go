package sink

import (
	"crew/runner/spool"
	"crew/runner/task"
)

// logSize is how much of small results is packed into one buffer.
const logSize = 128 << 10

// reorderBuffer holds results that are finished and not yet released. Small ones
// are packed, as they will be shown, into logs in the spool. Others keep their own
// outputs. It is not safe for concurrent use.
type reorderBuffer struct {
	store *spool.Store
	head  uint64 // the lowest ID that is not yet taken
	held  map[uint64]extent
	log   *log // takes the next small results
}

// extent is a result that waits: a part of a log of small ones, or all of one of its own.
type extent struct {
	in       *log
	off      uint32
	out, err uint32 // bytes of stdout, and of stderr after them
}

// log is many small results, or a large one.
type log struct {
	*spool.Buffer
	live  int    // small results in it that are not released
	large *large // nil for small ones
}

// large is a result that waits with its outputs, which it owns.
type large struct {
	task   *task.Task // nil if its lines have their tags
	result task.Result
}

func newReorderBuffer(store *spool.Store) *reorderBuffer {
	return &reorderBuffer{store: store, head: 1, log: &log{Buffer: store.Buffer()}}
}

// room returns the log for a small result of about n bytes.
func (h *reorderBuffer) room(n int64) *log {
	if h.log.Len()+n > logSize {
		if h.log.Spill(); h.log.live == 0 {
			h.log.Close()
		}
		h.log = &log{Buffer: h.store.Buffer()}
	}
	return h.log
}

// hold holds a result.
func (h *reorderBuffer) hold(id uint64, r extent) {
	if h.held == nil {
		h.held = map[uint64]extent{}
	}
	h.held[id] = r
	r.in.live++
}

// take moves head past id and returns what was held for it. It stays readable until free.
func (h *reorderBuffer) take(id uint64) (r extent, ok bool) {
	h.head = id + 1
	r, ok = h.held[id]
	if delete(h.held, id); len(h.held) == 0 {
		h.held = nil // a map does not shrink
	}
	return r, ok
}

// free gives up a result that was taken.
func (h *reorderBuffer) free(r extent) {
	if r.in.live--; r.in.large != nil {
		r.in.large.result.Close()
	} else if r.in.live == 0 && r.in != h.log {
		r.in.Close()
	}
}
