package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The distances between attempts on a worker's clock are preserved, whatever the clock shows and
// however long results take to arrive.
func TestClock(t *testing.T) {
	here := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for _, ahead := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour} {
		c := &clock{}
		end := func(at, late time.Duration) time.Duration {
			return c.toLocal(here.Add(at-ahead), here.Add(at+late)).Sub(here)
		}
		require.Equal(t, 60*time.Millisecond, end(0, 60*time.Millisecond), "nothing better is known")
		require.Equal(t, 105*time.Millisecond, end(100*time.Millisecond, 5*time.Millisecond))
		require.Equal(t, 205*time.Millisecond, end(200*time.Millisecond, 800*time.Millisecond))
		require.Equal(t, 302*time.Millisecond, end(300*time.Millisecond, 2*time.Millisecond))
		// The clock is set back and then forward.
		ahead += time.Hour
		require.Equal(t, 404*time.Millisecond, end(400*time.Millisecond, 4*time.Millisecond))
		ahead -= 2 * time.Hour
		require.Equal(t, 503*time.Millisecond, end(500*time.Millisecond, 3*time.Millisecond))
		require.Equal(t, 603*time.Millisecond, end(600*time.Millisecond, 9*time.Millisecond))
	}
}
