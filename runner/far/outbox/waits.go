package outbox

import (
	"sync"
	"time"
)

const (
	lookEvery = 1500 * time.Millisecond
	mostStill = 3 // looks without progress, so 3 to 4.5 s; not one, as this process may have been suspended
)

// Waits knows what a process waits for from the hub, and says it when none of that makes progress
// for some seconds: once, until it says something else. Time without a connection does not
// count. It is safe for concurrent use.
type Waits struct {
	say       func(text string)
	connected func() bool

	mu     sync.Mutex
	timer  *time.Timer // of look
	closed bool
	all    []Wait
	was    int64 // the progress of all
	still  int   // looks since then
	told   int   // the latest that was said, from 1
}

// Wait returns how far one kind of thing that is waited for has come, in numbers of any kind that grow,
// and what to say of it if that has been the same since some time; "" if nothing of it is waited for.
type Wait func(since time.Duration) (progress int64, text string)

// NewWaits returns Waits that call say, until Close. connected returns whether there is a connection.
func NewWaits(say func(text string), connected func() bool) *Waits {
	w := &Waits{say: say, connected: connected}
	w.mu.Lock()
	w.timer = time.AfterFunc(lookEvery, w.look)
	w.mu.Unlock()
	return w
}

// Close has nothing be said any more.
func (w *Waits) Close() {
	w.mu.Lock()
	w.closed = true
	w.timer.Stop()
	w.mu.Unlock()
}

// On adds a kind of thing.
func (w *Waits) On(x Wait) {
	w.mu.Lock()
	w.all = append(w.all, x)
	w.mu.Unlock()
}

// look says what has come to a halt: of several kinds that which was added last.
func (w *Waits) look() {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return
	}
	w.timer.Reset(lookEvery)
	w.still++
	sum, which, text := int64(0), 0, ""
	for i, x := range w.all {
		progress, what := x((time.Duration(w.still) * lookEvery).Truncate(time.Second))
		if sum += progress; what != "" {
			which, text = i+1, what
		}
	}
	if sum != w.was || text == "" || !w.connected() {
		w.was, w.still = sum, 0
	}
	due := w.still >= mostStill && which != w.told
	if due {
		w.told = which
	}
	w.mu.Unlock()
	if due {
		w.say(text) // which may wait for a reader
	}
}
