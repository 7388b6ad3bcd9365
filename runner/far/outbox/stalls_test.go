package outbox

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A stall is reported once until something else is reported; progress is not reported.
func TestStallWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notices := make(chan string, 10)
		var away atomic.Bool
		w := NewStallWatch(func(text string) { notices <- text }, func() bool { return !away.Load() })
		defer w.Close()
		type kind struct{ open, progress atomic.Int64 }
		on := func(name string) *kind {
			k := &kind{}
			w.Add(func(since time.Duration) (int64, string) {
				if k.open.Load() == 0 {
					return k.progress.Load(), ""
				}
				return k.progress.Load(), fmt.Sprint(name, k.progress.Load(), " ", since)
			})
			return k
		}
		after := func(d time.Duration, want ...string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			var all []string
			for len(notices) > 0 {
				all = append(all, <-notices)
			}
			require.Equal(t, want, all)
		}
		a, b := on("a"), on("b")
		after(time.Hour)
		a.open.Store(1)
		after(3 * time.Second)
		after(1500*time.Millisecond, "a0 4s")
		a.progress.Add(1)
		after(time.Hour)
		b.open.Store(1)
		a.open.Store(0)
		for range 100 {
			b.progress.Add(1)
			after(2900 * time.Millisecond)
		}
		away.Store(true)
		after(time.Hour)
		away.Store(false)
		after(4500*time.Millisecond, "b100 4s")
		b.open.Store(0)
		after(time.Hour)
	})
}
