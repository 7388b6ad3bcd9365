package outbox

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// What makes no progress is said once, unless something else was, and what does is not.
func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := make(chan string, 10)
		var away atomic.Bool
		w := NewWaits(func(text string) { said <- text }, func() bool { return !away.Load() })
		defer w.Close()
		on := func(kind string) *Wait {
			return w.On(func(bytes int64, since time.Duration) string { return fmt.Sprint(kind, bytes, " ", since) })
		}
		after := func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			var all []string
			for len(said) > 0 {
				all = append(all, <-said)
			}
			require.Equal(t, want, all)
		}
		a, b := on("a"), on("b")
		after(time.Hour)
		a.Add(1, 0)
		after(3 * time.Second)
		after(1500*time.Millisecond, "a0 4s")
		a.Add(1, 0)
		a.Add(-1, 0)
		after(time.Hour)
		b.Add(1, 0)
		a.Add(-1, 0)
		b.Add(0, 7)
		for range 100 {
			after(2900 * time.Millisecond)
			b.Add(0, 1)
		}
		away.Store(true)
		after(time.Hour)
		away.Store(false)
		after(4500*time.Millisecond, "b107 4s")
		b.Add(-1, 0)
		after(time.Hour)
	})
}
