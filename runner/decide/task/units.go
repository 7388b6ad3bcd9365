package task

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The greatest duration that ParseDuration returns. Sums of a few do not overflow.
const (
	maxDays     = 36500
	MaxDuration = maxDays * 24 * time.Hour
)

// ParseDuration parses a number of seconds, like timeout(1), or the syntax of time.ParseDuration,
// optionally with days before it: 10, 1.5s, 500ms, 1h30m, 1d12h. The error is a hint that says what to
// write.
func ParseDuration(s string) (time.Duration, error) {
	hint := errors.New("write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d")
	const decimal = "0123456789."
	if strings.Trim(s, decimal) == "" {
		s += "s"
	}
	days, rest, found := strings.Cut(s, "d")
	switch {
	case !found:
		days, rest = "0", s
	case rest == "":
		rest = "0"
	}
	n, err := strconv.ParseFloat(days, 64)
	d, err2 := time.ParseDuration(rest)
	if err != nil || err2 != nil || strings.Trim(days, decimal) != "" || n > maxDays || d < 0 || d > MaxDuration {
		return 0, hint
	}
	if d += time.Duration(n * float64(24*time.Hour)); d > MaxDuration {
		return 0, hint
	}
	return d, nil
}

// maxSize is the largest number of bytes that ParseSize returns.
const maxSize = 1 << 50

// ParseSize parses a positive number of bytes with a unit of GNU parallel: K, M, G and T, or k, m, g
// and t for powers of 1000. The error is a hint that says what to write.
func ParseSize(s string) (int64, error) {
	digits := strings.TrimRight(s, "KMGTkmgt")
	unit, known := map[string]int64{
		"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12,
	}[s[len(digits):]]
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || !known || n == 0 || int64(n) > maxSize/unit {
		return 0, errors.New("write a number of bytes such as 512M or 4G")
	}
	return int64(n) * unit, nil
}

// Size formats a number of bytes, as in "2.0 MiB".
func Size(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d B", n)
	}
	size := float64(n) / (1 << 10)
	units := []string{"KiB", "MiB", "GiB"}
	for size >= 1<<10 && len(units) > 1 {
		size, units = size/(1<<10), units[1:]
	}
	return fmt.Sprintf("%.1f %s", size, units[0])
}
