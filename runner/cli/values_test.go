package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
	"crew/sched"
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
		"2027-01-02 03:04":          {Until: time.Date(2027, 1, 2, 3, 4, 0, 0, zone)},
		"2020-01-02 03:04:05":       {Until: time.Date(2020, 1, 2, 3, 4, 5, 0, zone)},
		"2020-01-31T06:00:00+05:00": {Until: time.Date(2020, 1, 31, 6, 0, 0, 0, zone)},
	} {
		got, err := deadlineAfter(s, now, nil)
		require.NoError(t, err, s)
		require.Equal(t, want.After, got.After, s)
		require.True(t, want.Until.Equal(got.Until), "%s is %v", s, got.Until)
	}
	for _, s := range []string{"", "0", "-5m", "24:00", "6pm", "2027-01-31", "tomorrow", "12:3"} {
		_, err := deadlineAfter(s, now, nil)
		require.EqualError(t, err, "write a time such as 90m, 06:00, '2027-01-31 06:00' or 2027-01-31T06:00:00Z", s)
	}
}

func TestParseAt(t *testing.T) {
	now := time.Date(2026, 12, 31, 22, 30, 15, 0, time.UTC)
	got, err := momentAfter("22:31", now, nil)
	require.NoError(t, err)
	require.Equal(t, time.Date(2026, 12, 31, 22, 31, 0, 0, time.UTC), got)
	for s, want := range map[string]string{
		"2h":                   "write --in 2h",
		"2026-12-31 22:30:15":  "that is past: it is 2026-12-31 22:30:15 +0000",
		"2026-12-31T22:30:14Z": "that is past: it is 2026-12-31 22:30:15 +0000",
		"friday":               `write 22:00, '2027-01-31 06:00' or 2027-01-31T06:00:00Z; others as "$(date -Is -d 'next friday')"`,
	} {
		_, err := momentAfter(s, now, nil)
		require.EqualError(t, err, want, s)
	}
}

// Where clocks are set, a task may start late but not early.
func TestLocalTimes(t *testing.T) {
	for zone, days := range map[string]map[string]string{
		"America/New_York": {"2027-03-14 01:30": "01:30 -0500", "2027-03-14 02:30": "03:30 -0400", "2027-03-14 12:00": "12:00 -0400",
			"2027-11-07 01:30": "01:30 -0500", "2027-11-07 00:30": "00:30 -0400"},
		"Europe/Berlin": {"2027-03-28 02:30": "03:30 +0200", "2027-10-31 02:30": "02:30 +0100", "2027-10-30 12:00": "12:00 +0200"},
		"UTC":           {"2027-03-28 02:30": "02:30 +0000"},
	} {
		in, err := time.LoadLocation(zone)
		if err != nil {
			t.Skip(err)
		}
		for text, want := range days {
			got, err := moment(text, time.Date(2027, 1, 1, 0, 0, 0, 0, in), nil)
			require.NoError(t, err)
			require.Equal(t, want, got.Format("15:04 -0700"), "%s in %s", text, zone)
		}
	}
}

func TestPolicies(t *testing.T) {
	for name := range strings.FieldsSeq(long("sched").choices) {
		_, err := sched.New(sched.Config{Name: name, Topics: sched.Topics{Auto: true}})
		require.NoError(t, err)
	}
}

func TestParseRetryOn(t *testing.T) {
	r, err := parseRetryOn("exit:75,exit:1-99,exit,signal,timeout,start,any")
	require.NoError(t, err)
	require.Equal(t, RetryOn{Any: true, Exit: []ExitRange{{75, 75}, {1, 99}, {1, 255}}, Outcomes: []task.Outcome{task.Signal, task.Timeout, task.StartFailed}}, r)
	for _, in := range []string{"", "x", "exit:", "exit:0", "exit:256", "exit:9-1", "exit:1-", "any,", "signal:9"} {
		_, err := parseRetryOn(in)
		require.Error(t, err, in)
	}
}

func TestParseHalt(t *testing.T) {
	for in, want := range map[string]Halt{
		"never":            {},
		"now,fail=1":       {When: "now", On: "fail", N: 1},
		"soon,success=3":   {When: "soon", On: "success", N: 3},
		"soon,done=100%":   {When: "soon", On: "done", N: 100, Percent: true},
		"now,success=1%":   {When: "now", On: "success", N: 1, Percent: true},
		"now,fail=1000000": {When: "now", On: "fail", N: 1000000},
		"pause,fail=3":     {When: "pause", On: "fail", N: 3},
		"pause,done=10%":   {When: "pause", On: "done", N: 10, Percent: true},
	} {
		got, err := parseHalt(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "now", "now,fail", "now,fail=", "now,fail=0", "now,fail=0%", "now,fail=101%",
		"never,fail=1", "pause", "pause,fail", "now,lost=1", "now,fail=1x", "now,fail=1,done=2", "2"} {
		_, err := parseHalt(in)
		require.Error(t, err, in)
	}
}

// No value of an option makes the parsers crash, and a duration is never
// negative.
func FuzzValues(f *testing.F) {
	f.Add(`1d12h`)
	f.Add(`exit:1-99,any`)
	f.Add(`soon,done=10%`)
	f.Fuzz(func(t *testing.T, s string) {
		d, err := task.ParseDuration(s)
		if err == nil {
			require.GreaterOrEqual(t, d, time.Duration(0))
			require.LessOrEqual(t, d, task.MaxDuration)
		}
		if h, err := parseHalt(s); err == nil {
			require.Equal(t, h.When == "", h.N == 0)
		}
		_, _ = parseRetryOn(s)
	})
}
