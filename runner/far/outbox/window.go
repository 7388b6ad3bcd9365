package outbox

import (
	"context"
	"sync"
	"time"
)

const (
	// Piece is the maximum size of a message in bytes. On a slow connection, later messages, such
	// as the renewal of a lease, wait until a message has been sent.
	Piece = 48 << 10

	// Short is the maximum size of a request, or of its answer, that tells the latency of a connection:
	// sending more takes too long on a slow one.
	Short = Piece / 4

	minWindow = 64 << 10 // a piece and its overhead
	maxWindow = 2 << 20

	shortDelay = 250 * time.Millisecond // the window grows if bytes are delayed by at most this
	longDelay  = 750 * time.Millisecond // and shrinks if they are delayed by this
)

// Window limits the bytes in transit in one direction of a connection. It grows from 64 KiB as long as
// they do not wait for each other for long, and shrinks when they do, so that later messages are delayed
// by less than a second. It is safe for concurrent use.
type Window struct {
	turn chan struct{} // full while a caller of Acquire waits for room; others queue behind it
	room chan struct{} // signals that room was released

	mu   sync.Mutex
	size int
	used int
}

// NewWindow returns a window with nothing in transit.
func NewWindow() *Window {
	return &Window{turn: make(chan struct{}, 1), room: make(chan struct{}, 1), size: minWindow}
}

// Acquire adds n bytes to those in transit, as soon as there is room for them or nothing else is in
// transit. Calls are served in order. Acquire returns the error of ctx if ctx is done first.
func (w *Window) Acquire(ctx context.Context, n int) error {
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
	}
	for ctx.Err() == nil && !w.try(n) {
		select {
		case <-w.room:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func (w *Window) try(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	ok := w.used == 0 || w.used+n <= w.size
	if ok {
		w.used += n
	}
	return ok
}

// Release records that n bytes have arrived or were given up. See Requester.Delay; delay is 0 if
// unknown.
func (w *Window) Release(n int, delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch full := 2*w.used > w.size; {
	case delay >= longDelay:
		w.size = max(minWindow, w.size/2)
	case delay > 0 && delay <= shortDelay && full:
		w.size = min(maxWindow, w.size+n)
	}
	w.used -= n
	select {
	case w.room <- struct{}{}:
	default:
	}
}
