package outbox

import (
	"context"
	"sync"
	"time"
)

const (
	// Piece is the most bytes that a message should have: what comes behind one over a slow
	// connection, such as the renewal of a lease, waits until it has gone.
	Piece = 48 << 10

	leastWindow = 64 << 10 // a piece, and what belongs to it
	mostWindow  = 2 << 20

	quickAnswer = 250 * time.Millisecond // for bytes that are on their way, to have more of them
	slowAnswer  = 750 * time.Millisecond // to have less
)

// Window limits the bytes that are on their way at once in one direction of a connection. It
// grows from 64 KiB as long as they arrive at once, and shrinks when they are late, so that whatever
// comes behind them has to wait for less than a second. It is safe for concurrent use.
type Window struct {
	mu   sync.Mutex
	more sync.Cond // room for more
	size int
	used int
}

// NewWindow returns a window with nothing on its way.
func NewWindow() *Window {
	w := &Window{size: leastWindow}
	w.more.L = &w.mu
	return w
}

// Try has n bytes be on their way if there is room for them, or nothing else is on its way.
func (w *Window) Try(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.try(n)
}

func (w *Window) try(n int) bool {
	ok := w.used == 0 || w.used+n <= w.size
	if ok {
		w.used += n
	}
	return ok
}

// Take waits until Try succeeds, or ctx is done.
func (w *Window) Take(ctx context.Context, n int) error {
	defer context.AfterFunc(ctx, func() {
		w.mu.Lock()
		w.more.Broadcast()
		w.mu.Unlock()
	})()
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.try(n) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		w.more.Wait()
	}
	return nil
}

// Size returns how many bytes may be on their way.
func (w *Window) Size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.size
}

// Give notes that n bytes have arrived, or are given up, and how long they took; 0 if that
// says nothing of the connection.
func (w *Window) Give(n int, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch full := 2*w.used > w.size; {
	case took >= slowAnswer:
		w.size = max(leastWindow, w.size/2)
	case took > 0 && took <= quickAnswer && full:
		w.size = min(mostWindow, w.size+n)
	}
	w.used -= n
	w.more.Broadcast()
}
