package sched

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRateRandom(t *testing.T) {
	for range 300 {
		w := window{1 + rand.IntN(20), 1 + rand.IntN(10), time.Duration(1 + rand.IntN(1e6))}
		r := w.rate()
		var starts []time.Time
		now := time.Unix(1e9, 0)
		for range 400 {
			if now.Before(r.at()) {
				now = now.Add(time.Duration(1 + rand.Int64N(int64(r.at().Sub(now)))))
				continue
			}
			r.start(now)
			starts = append(starts, now)
			w.check(t, starts)
			if rand.IntN(10) == 0 {
				now = now.Add(time.Duration(rand.Int64N(3 * int64(w.period))))
			}
		}
	}
}

// What is never late gets the whole rate, after a burst.
func TestRateIsReached(t *testing.T) {
	r := NewRate(10, time.Second, 5)
	now := time.Unix(1e9, 0)
	began := now
	for range 105 {
		if at := r.at(); now.Before(at) {
			now = at
		}
		r.start(now)
	}
	require.InDelta(t, 10.2, now.Sub(began).Seconds(), 0.001)
}
