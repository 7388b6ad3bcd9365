package wiring

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/kernel"
)

func TestJobs(t *testing.T) {
	eight := func() int { return 8 }
	for in, want := range map[string]int{
		"100%": 8, "50%": 4, "10%": 1, "300%": 24, "0%": 1, "13%": 1,
		"+0": 8, "+2": 10, "-1": 7, "-0": 8, "-8": 1, "-20": 1,
	} {
		n, ok := parseJobs(in, eight)
		require.True(t, ok, in)
		require.Equal(t, want, n, in)
	}
	for in, want := range map[string]int{"4": 4, "1": 1, "0": 0, "1048576": 1 << 20} {
		n, ok := parseJobs(in, nil) // which asks nothing of the machine
		require.True(t, ok, in)
		require.Equal(t, want, n, in)
	}
	for _, in := range []string{"", "x", "4x", "%", "+", "-", "--1", "+-1", "1.5", "4 ", " 4", "50%%", "+5%", "1048577", "99999999999999999999", "0x4", "٤"} {
		_, ok := parseJobs(in, nil)
		require.False(t, ok, in)
	}
	require.GreaterOrEqual(t, hereProcessors(), 1)
	require.Equal(t, uint64(math.MaxUint64), kernel.Limit(-1))
}

func TestMostTasks(t *testing.T) {
	for _, c := range []struct {
		files     uint64
		processes int64
		want      int
	}{
		{1024, math.MaxInt64, 248},
		{math.MaxUint64, math.MaxInt64, mostJobs},
		{1 << 20, 100, 44},
		{1 << 20, 50, 19},
		{10, 100, 1},
		{36, 1, 1},
		{40, 1, 1},
	} {
		require.Equal(t, c.want, mostTasks(c.files, c.processes))
	}
}
