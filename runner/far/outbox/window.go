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
	turn chan struct{} // full while somebody waits for room: others wait behind
	room chan struct{} // there is more

	mu   sync.Mutex
	size int
	used int
}

// NewWindow returns a window with nothing on its way.
func NewWindow() *Window {
	return &Window{turn: make(chan struct{}, 1), room: make(chan struct{}, 1), size: leastWindow}
}

// Take has n bytes be on their way once there is room for them, or nothing else is on its way, in the order of
// the calls. It returns the error of ctx if that is done before.
func (w *Window) Take(ctx context.Context, n int) error {
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
	select {
	case w.room <- struct{}{}:
	default:
	}
}
