package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// The distances between attempts on a worker's clock are preserved, whatever the clock shows and
// however long results take to arrive.
func TestClock(t *testing.T) {
	rows, lines := crewtest.Rows[struct {
		Set, At, Late, Local time.Duration // the clock is set forward by so many hours; others are milliseconds
	}]("testdata/clock.jsonl")
	here := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	for _, ahead := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour} {
		c := &clock{}
		for i, row := range rows {
			ahead += row.Set * time.Hour
			at := here.Add(row.At * time.Millisecond)
			require.Equal(t, here.Add(row.Local*time.Millisecond), c.toLocal(at.Add(ahead), at.Add(row.Late*time.Millisecond)), "line %d", lines[i])
		}
	}
}
