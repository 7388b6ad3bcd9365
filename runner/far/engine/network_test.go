package engine

import (
	"errors"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server/ats"
)

// inTime calls test with a broker in a synctest bubble, where time passes at once while all goroutines
// wait.
func inTime(t *testing.T, test func(t *testing.T, b *broker)) {
	t.Helper()
	ats.Register() // its goroutine serves all servers of the process
	defer ats.Unregister()
	forgetTimers()
	defer forgetTimers()
	synctest.Test(t, func(t *testing.T) {
		b := &broker{t: t, dir: t.TempDir()}
		b.start()
		t.Cleanup(b.stop)
		test(t, b)
	})
}

// forgetTimers empties the client's pool of timers, which belong to the bubble that they were made in:
// a sync.Pool is empty after two collections.
func forgetTimers() {
	for range 2 {
		runtime.GC()
	}
}

// line is the connection of one party to the broker. Data under way when it is cut is lost.
type line struct {
	to    *broker
	delay time.Duration

	mu    sync.Mutex
	moves sync.Cond
	held  bool
	until time.Time // when it works again
	ends  []net.Conn
}

func (b *broker) line(delay time.Duration) *line {
	l := &line{to: b, delay: delay}
	l.moves.L = &l.mu
	b.t.Cleanup(func() { l.cut(time.Hour); time.Sleep(l.delay) })
	return l
}

// InProcessConn connects to the server over the line.
func (l *line) InProcessConn() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held || time.Now().Before(l.until) {
		return nil, errors.New("nothing answers")
	}
	far, err := l.to.InProcessConn()
	if err != nil {
		return nil, err
	}
	near, mine := net.Pipe()
	l.ends = append(l.ends, near, far)
	go l.carry(near, far)
	go l.carry(far, near)
	return mine, nil
}

// carry copies data from one end to the other without blocking the writer. Connecting takes no time:
// the client holds a lock meanwhile, and time does not pass while a goroutine waits for a lock.
func (l *line) carry(from, to net.Conn) {
	type piece struct {
		data []byte
		due  time.Time
	}
	pieces, born := make(chan piece, 1<<16), time.Now()
	go func() {
		defer from.Close()
		defer to.Close()
		for p := range pieces {
			time.Sleep(time.Until(p.due))
			l.mu.Lock()
			for l.held && time.Now().After(born) {
				l.moves.Wait()
			}
			l.mu.Unlock()
			if _, err := to.Write(p.data); err != nil {
				return
			}
		}
	}()
	defer close(pieces)
	for buf := make([]byte, 32<<10); ; {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		due := time.Now()
		if due.After(born) {
			due = due.Add(l.delay)
		}
		pieces <- piece{slices.Clone(buf[:n]), due}
	}
}

// hold stops the data, or lets all waiting data through.
func (l *line) hold(held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = held
	l.moves.Broadcast()
}

// cut closes the connections, and allows no new ones for some time.
func (l *line) cut(pause time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.until = false, time.Now().Add(pause)
	for _, c := range l.ends {
		c.Close()
	}
	l.ends = nil
	l.moves.Broadcast()
}
