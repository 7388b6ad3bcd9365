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
	say    func(text string)
	heard  func() (messages uint64, connected bool)
	Listen *Wait // for any message of the hub: said if nothing comes while nothing else is waited for

	mu     sync.Mutex
	timer  *time.Timer // of look
	closed bool
	all    []*Wait
	open   int       // of all, but Listen
	moved  time.Time // the latest progress
	still  int       // looks since
	seen   uint64    // messages heard
	quiet  int       // looks since there were more
	told   *Wait     // the latest that was said
}

// Wait is one kind of thing that is waited for, maybe several of it at once.
type Wait struct {
	of    *Waits
	text  func(bytes int64, since time.Duration) string
	open  int
	bytes int64 // that have come since none was open
}

// NewWaits returns Waits that call say, until Close. heard returns how many messages the hub has
// sent, and whether there is a connection.
func NewWaits(say func(text string), heard func() (messages uint64, connected bool)) *Waits {
	w := &Waits{say: say, heard: heard, moved: time.Now()}
	w.Listen = &Wait{of: w, text: func(int64, time.Duration) string { return "waiting for the hub, which sends nothing" }}
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
// how long nothing more has.
func (w *Waits) On(text func(bytes int64, since time.Duration) string) *Wait {
	w.mu.Lock()
	defer w.mu.Unlock()
	x := &Wait{of: w, text: text}
	w.all = append(w.all, x)
	return x
}

// Begin notes that something is waited for, until End.
func (x *Wait) Begin() { x.change(1, 0) }

// Progress notes that some bytes of it have come.
func (x *Wait) Progress(bytes int) { x.change(0, bytes) }

// End notes that it has come, or that nobody waits for it any more.
func (x *Wait) End() { x.change(-1, 0) }

// Set notes progress, and whether more is to come, which is one thing that is waited for.
func (x *Wait) Set(more bool) {
	x.of.mu.Lock()
	open := x.open > 0
	x.of.mu.Unlock()
	switch {
	case more && !open:
		x.Begin()
	case !more && open:
		x.End()
	default:
		x.Progress(0)
	}
}

// change notes that one thing more or less is waited for, or progress.
func (x *Wait) change(by, bytes int) {
	w := x.of
	w.mu.Lock()
	defer w.mu.Unlock()
	if x.open == 0 {
		x.bytes = 0
	}
	x.open, x.bytes = x.open+by, x.bytes+int64(bytes)
	if x == w.Listen {
		w.quiet = 0
		return
	}
	if w.open += by; by < 1 || w.open == 1 {
		w.moved, w.still = time.Now(), 0
	}
}

// look says what has come to a halt.
func (w *Waits) look() {
	messages, connected := w.heard()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.timer.Reset(lookEvery)
	w.still, w.quiet = w.still+1, w.quiet+1
	if messages != w.seen || !connected {
		w.seen, w.quiet = messages, 0
	}
	if !connected {
		w.moved, w.still = time.Now(), 0
	}
	halted := w.halted()
	if halted == nil || halted == w.told {
		return
	}
	w.told = halted
	bytes, since := halted.bytes, time.Since(w.moved).Round(time.Second)
	w.mu.Unlock() // what makes the text has locks of its own
	text := halted.text(bytes, since)
	w.say(text)
	w.mu.Lock()
}

// halted returns what makes no progress, or nil. Its caller holds mu.
func (w *Waits) halted() *Wait {
	for _, x := range w.all {
		if x.open > 0 && w.still >= mostStill {
			return x
		}
	}
	if w.Listen.open > 0 && w.quiet >= mostStill {
		return w.Listen
	}
	return nil
}
