package cli

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/sink"
)

func TestParseDeadline(t *testing.T) {
	zone := time.FixedZone("far", 5*3600)
	now := time.Date(2026, 12, 31, 22, 30, 15, 500, zone)
	for s, want := range map[string]Deadline{
		"90m":                       {After: 90 * time.Minute},
		"1.5":                       {After: 1500 * time.Millisecond},
		"22:31":                     {Until: time.Date(2026, 12, 31, 22, 31, 0, 0, zone)},
		"22:30:16":                  {Until: time.Date(2026, 12, 31, 22, 30, 16, 0, zone)},
		"22:30:15":                  {Until: time.Date(2027, 1, 1, 22, 30, 15, 0, zone)}, // has just passed
		"6:00":                      {Until: time.Date(2027, 1, 1, 6, 0, 0, 0, zone)},
		"2020-01-31T06:00:00+05:00": {Until: time.Date(2020, 1, 31, 6, 0, 0, 0, zone)},
	} {
		got, err := parseDeadline(s, now)
		require.NoError(t, err, s)
		require.Equal(t, want.After, got.After, s)
		require.True(t, want.Until.Equal(got.Until), "%s is %v", s, got.Until)
	}
	for _, s := range []string{"", "0", "-5m", "24:00", "6pm", "2027-01-31", "2027-01-31T06:00", "tomorrow", "12:3"} {
		_, err := parseDeadline(s, now)
		require.EqualError(t, err, "write a time such as 90m, 06:00 or 2027-01-31T06:00:00Z", s)
	}
}

// With --quiet-success, no line tells a CI server how far the run is.
func TestNoProgressOfSuccess(t *testing.T) {
	t.Setenv("GITHUB_ACTIONS", "true")
	for arg, want := range map[string]sink.Progress{"--quiet-success": sink.ProgressAuto, "--keep-order": sink.ProgressLines} {
		o, _, err := parse([]string{"crew", arg, "echo"}, func(string) string { return "" }, io.Discard, io.Discard)
		require.NoError(t, err)
		require.Equal(t, want, (&wiring{opts: o, plan: o.plan()}).progress(), arg)
	}
}
