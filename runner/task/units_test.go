package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseDuration(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"10": 10 * time.Second, "0": 0, ".5": 500 * time.Millisecond, "1.5s": 1500 * time.Millisecond,
		"2m": 2 * time.Minute, "500ms": 500 * time.Millisecond, "1h30m": 90 * time.Minute,
		"1d": 24 * time.Hour, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour,
		"36500d": 36500 * 24 * time.Hour, "876000h": 36500 * 24 * time.Hour,
	} {
		got, err := ParseDuration(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "x", "5x", "-1", "-1s", "1e3", "inf", "NaN", "1 s", "d", "1d2d", "1dx", "1d-13h",
		".", "1..2", "1_0", "99999999999", "999999999d", "106751d24h", "36500.1d", "36500d1ns", "876001h", "s"} {
		_, err := ParseDuration(in)
		require.Error(t, err, in)
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"1": 1, "64K": 64 << 10, "3m": 3e6, "1T": 1 << 40, "1024T": 1 << 50} {
		got, err := ParseSize(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "0", "K", "-1", "+1", "1.5M", "1KK", "1KB", "1 K", "1025T", "9223372036854775807", "99999999999999999999"} {
		_, err := ParseSize(in)
		require.Error(t, err, in)
	}
}
