package cli

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
	"crew/sched"
)

// TestMoments reads testdata/moments.txt, whose columns are a zone, the time there, what is
// written, and what that is to --deadline and to --at. Where clocks are set, a task may start
// late but not early.
func TestMoments(t *testing.T) {
	text, err := os.ReadFile("testdata/moments.txt")
	require.NoError(t, err)
	for row := range strings.Lines(string(text)) {
		column := strings.Split(strings.TrimSuffix(row, "\n"), " | ")
		zone, err := time.LoadLocation(column[0])
		if err != nil {
			t.Skip(err)
		}
		now, err := time.ParseInLocation(time.DateTime, column[1], zone)
		require.NoError(t, err)
		deadline, err := deadlineAfter(column[2], now, nil)
		require.Equal(t, column[3], fmt.Sprint(deadline.After, deadline.Until, err), row)
		at, err := momentAfter(column[2], now, nil)
		require.Equal(t, column[4], fmt.Sprint(at, err), row)
	}
}

func TestPolicies(t *testing.T) {
	for name := range strings.FieldsSeq(long("sched").choices) {
		_, err := sched.New(sched.Config{Name: name, Topics: sched.Topics{Auto: true}})
		require.NoError(t, err)
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
