package series

import (
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// history is what happened to a queue: the values of figures from each time on, and the times of ends.
type history struct {
	from   []int64
	values []Point // Ended and Failed are counts at that time
}

// sum returns the sums of the figures between two times.
func (h *history) sum(from, to int64) (sum Point) {
	for i, t := range h.from {
		if t >= from && t < to {
			sum[Ended] += h.values[i][Ended]
			sum[Failed] += h.values[i][Failed]
		}
		if i+1 == len(h.from) {
			break
		}
		if part := min(h.from[i+1], to) - max(t, from); part > 0 {
			for _, f := range []Figure{Covered, Running, Waiting, Memory, Load} {
				sum[f] += h.values[i][f] * time.Duration(part).Seconds()
			}
		}
	}
	return sum
}

// TestLive compares the curves of a queue that ends and begins again with sums over what happened.
func TestLive(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) { liveSeed(t, rand.New(rand.NewPCG(seed, 0)), t.TempDir()) })
	}
}

func liveSeed(t *testing.T, r *rand.Rand, dir string) {
	var all, own history // of the queue, and of its latest process
	var l *Live
	var now Point
	pause := time.Duration(1) << (20 + r.IntN(20)) // up to 9 minutes
	note := func() {
		for _, h := range []*history{&all, &own} {
			h.from, h.values = append(h.from, time.Now().UnixNano()), append(h.values, now)
		}
		now[Ended], now[Failed] = 0, 0
	}
	for range 1 + r.IntN(2000) {
		time.Sleep(time.Duration(r.Int64N(int64(pause))))
		if l == nil {
			l, own, now = NewLive(), history{}, Point{Covered: 1}
			require.NoError(t, l.Keep(dir))
			note()
			now[Memory], now[Load] = float64(r.IntN(1e9)), float64(r.IntN(9))
			l.Sample(now[Memory], now[Load])
			note()
		}
		var batch []task.Event
		add := func(kind task.Kind, outcome task.Outcome, running, waiting float64) {
			batch = append(batch, task.Event{Kind: kind, At: time.Now(), Attempt: int(-running), Result: &task.Result{Outcome: outcome}})
			now[Running] += running
			now[Waiting] += waiting
		}
		for range 1 + r.IntN(3) {
			switch r.IntN(6) {
			case 0:
				add(task.Admitted, 0, 0, 1)
			case 1:
				if now[Waiting] > 0 {
					add(task.Started, 0, 1, -1)
				}
			case 2:
				if now[Running] > 0 {
					add(task.Retried, task.Exit, -1, 1)
				}
			case 3:
				if now[Running] > 0 {
					outcome := task.OK
					if now[Ended]++; r.IntN(2) == 0 {
						outcome = task.Exit
						now[Failed]++
					}
					add(task.Finished, outcome, -1, 0)
				}
			case 4:
				now[Memory], now[Load] = float64(r.IntN(1e9)), float64(r.IntN(9))
				require.LessOrEqual(t, l.Sample(now[Memory], now[Load]), longestPause)
			}
		}
		require.NoError(t, l.Consume(batch))
		note()
		if r.IntN(300) == 0 {
			require.NoError(t, l.Close(task.Stats{}))
			l, now = nil, Point{}
			note()
		}
	}
	if l == nil {
		return
	}
	now[Covered] = 0 // not known from now on
	note()
	for i, c := range l.Curves() {
		require.LessOrEqual(t, len(c.Points), max(mostPoints, keptMinutes))
		h := &all
		if i == 0 {
			h = &own
		}
		for k, p := range c.Points {
			from := c.Start.UnixNano() + int64(k)*int64(c.Width)
			want := h.sum(from, from+int64(c.Width))
			for f := Running; f < Figures && p[Covered] > 0; f++ {
				want[f] /= want[Covered]
			}
			require.InDeltaSlice(t, want[:], p[:], 1e-3, "curve %d, period %d of %d", i, k, len(c.Points))
		}
	}
}

// TestFile checks that points of the future are left out, and that a foreign file is neither read nor changed.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, FileName)
	all, err := ReadFile(dir)
	require.NoError(t, err)
	require.Nil(t, all)
	save := func(now time.Time) {
		l := NewLive()
		require.NoError(t, l.Keep(dir))
		l.archive[1].Count(Ended, 1, now.UnixNano())
		require.NoError(t, l.Close(task.Stats{}))
	}
	save(time.Now())
	save(time.Now().Add(400 * 24 * time.Hour)) // drops all before it
	save(time.Now())
	all, err = ReadFile(dir)
	require.NoError(t, err)
	require.True(t, all[1].Start.Before(time.Now()))
	require.EqualValues(t, 1, all[1].Points[len(all[1].Points)-1][Ended])
	good := crewtest.ReadFile(t, path)
	for _, text := range []string{"", "somebody's", "crew curves 1\n", good[:len(good)/2], strings.Replace(good, "1", "2", 1), `{"version":1,"curves":[{"width":60,"points":[[60,0,0,1e308]]},{}]}`} {
		crewtest.WriteFile(t, path, text, 0o600)
		require.ErrorContains(t, NewLive().Keep(dir), "no figures of crew: remove the file to begin anew")
		require.Equal(t, text, crewtest.ReadFile(t, path))
	}
}
