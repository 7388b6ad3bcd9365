package outbox

import (
	"sync"
	"time"
)

const (
	lookEvery  = 1500 * time.Millisecond
	maxStalled = 3 // looks without progress before a notice; more than one, as this process may have been suspended
)

// StallWatch shows a notice when nothing that this process awaits from the hub has made progress for
// some seconds. It does not repeat a notice until it has shown a different one. Time without a
// connection does not count. It is safe for concurrent use.
type StallWatch struct {
	notice    func(text string)
	connected func() bool

	mu      sync.Mutex
	timer   *time.Timer // of look
	closed  bool
	all     []Progress
	sum     int64 // the sum of all progress at the last look that found some
	stalled int   // looks since then
	shown   int   // the member of all that the last notice was about, from 1
}

// Progress returns a number that grows as one kind of awaited thing makes progress, and the notice to
// show if it has made none for the given time. text is "" if nothing of this kind is awaited.
type Progress func(since time.Duration) (progress int64, text string)

// NewStallWatch returns a StallWatch that calls notice until Close. connected reports whether there is
// a connection.
func NewStallWatch(notice func(text string), connected func() bool) *StallWatch {
	w := &StallWatch{notice: notice, connected: connected}
	w.mu.Lock()
	w.timer = time.AfterFunc(lookEvery, w.look)
	w.mu.Unlock()
	return w
}

// Close stops the notices.
func (w *StallWatch) Close() {
	w.mu.Lock()
	w.closed = true
	w.timer.Stop()
	w.mu.Unlock()
}

// Add adds a kind of awaited thing.
func (w *StallWatch) Add(p Progress) {
	w.mu.Lock()
	w.all = append(w.all, p)
	w.mu.Unlock()
}

// look shows a notice about the kind of thing that has stalled. If several have, it is the one that was
// added last.
func (w *StallWatch) look() {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return
	}
	w.timer.Reset(lookEvery)
	w.stalled++
	sum, which, text := int64(0), 0, ""
	for i, p := range w.all {
		n, notice := p((time.Duration(w.stalled) * lookEvery).Truncate(time.Second))
		if sum += n; notice != "" {
			which, text = i+1, notice
		}
	}
	if sum != w.sum || text == "" || !w.connected() {
		w.sum, w.stalled = sum, 0
	}
	due := w.stalled >= maxStalled && which != w.shown
	if due {
		w.shown = which
	}
	w.mu.Unlock()
	if due {
		w.notice(text) // without mu: it may block
	}
}
