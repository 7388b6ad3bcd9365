package outbox

import (
	"slices"
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
	all    []*Wait
	open   int   // of all
	still  int   // looks since the latest progress
	told   *Wait // the latest that was said
}

// Wait is one kind of thing that is waited for, maybe several of it at once.
type Wait struct {
	of    *Waits
	text  func(bytes int64, since time.Duration) string
	open  int
	bytes int64 // that have come since none was open
}

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

// On adds a kind of thing. text says what is waited for, how many bytes have come of it, and for
// how long at least nothing more has.
func (w *Waits) On(text func(bytes int64, since time.Duration) string) *Wait {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := &Wait{of: w, text: text}
	w.all = append(w.all, x)
	return x
}

// Add notes that so many more or fewer are waited for, and that some bytes have come. It is
// progress, unless there are only more.
func (x *Wait) Add(more, bytes int) {
	w := x.of
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.open == 0 {
		x.bytes = 0
	}
	x.open, x.bytes = x.open+more, x.bytes+int64(bytes)
	if w.open += more; more < 1 || w.open == more {
		w.still = 0
	}
}

// look says what has come to a halt.
func (w *Waits) look() {
	connected := w.connected()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.timer.Reset(lookEvery)
	if w.still++; !connected {
		w.still = 0
	}
	for _, x := range slices.Backward(w.all) {
		if x.open == 0 || w.still < mostStill {
			continue
		}
		if x != w.told {
			w.told = x
			still, bytes := w.still, x.bytes
			w.mu.Unlock() // what makes the text has locks of its own
			w.say(x.text(bytes, (time.Duration(still) * lookEvery).Truncate(time.Second)))
			w.mu.Lock()
		}
		return
	}
}
