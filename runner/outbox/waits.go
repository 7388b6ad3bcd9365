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
	say    func(text string)
	heard  func() (messages uint64, connected bool)
	Listen *Wait // for any message of the hub: said if nothing comes while nothing else is waited for

	mu     sync.Mutex
	timer  *time.Timer // of look
	closed bool
	all    []*Wait // Listen is the first
	open   int     // of the others
	still  int     // looks since the latest progress of these
	seen   uint64  // messages heard
	quiet  int     // looks since there were more
	told   *Wait   // the latest that was said
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
	w := &Waits{say: say, heard: heard}
	w.Listen = w.On(func(int64, time.Duration) string { return "waiting for the hub, which sends nothing" })
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
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.add(more, bytes)
}

// Set notes progress, and whether more is to come, which is one thing that is waited for.
func (x *Wait) Set(more bool) {
	x.of.mu.Lock()
	defer x.of.mu.Unlock()
	x.add(-x.open, 0)
	if more {
		x.add(1, 0)
	}
}

func (x *Wait) add(more, bytes int) {
	w := x.of
	if x.open == 0 {
		x.bytes = 0
	}
	x.open, x.bytes = x.open+more, x.bytes+int64(bytes)
	if x == w.Listen {
		w.quiet = 0
	} else if w.open += more; more < 1 || w.open == more {
		w.still = 0
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
		w.still = 0
	}
	for _, x := range slices.Backward(w.all) {
		still := w.still
		if x == w.Listen {
			still = w.quiet
		}
		if x.open == 0 || still < mostStill {
			continue
		}
		if x != w.told {
			w.told = x
			bytes := x.bytes
			w.mu.Unlock() // what makes the text has locks of its own
			w.say(x.text(bytes, (time.Duration(still) * lookEvery).Truncate(time.Second)))
			w.mu.Lock()
		}
		return
	}
}
