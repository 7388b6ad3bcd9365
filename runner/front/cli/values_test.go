package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/sched"
)

// TestMoments reads testdata/moments.txt. Its columns are a zone, the time there, a value, and the meaning of that
// value for --deadline and for --at. When clocks are set forward or back, a task may start late but not early.
func TestMoments(t *testing.T) {
	for row := range strings.Lines(crewtest.ReadFile(t, "testdata/moments.txt")) {
		column := strings.Split(strings.TrimSuffix(row, "\n"), " | ")
		zone, err := time.LoadLocation(column[0])
		if err != nil {
			t.Skip(err)
		}
		now, err := time.ParseInLocation(time.DateTime, column[1], zone)
		require.NoError(t, err)
		after, until, err := deadlineAfter(column[2], now, nil)
		require.Equal(t, column[3], fmt.Sprint(after, until, err), row)
		at, err := momentAfter(column[2], now, nil)
		require.Equal(t, column[4], fmt.Sprint(at, err), row)
	}
}

func TestPolicies(t *testing.T) {
	for name := range strings.FieldsSeq(long("sched").choices) {
		require.NotNil(t, sched.New(name, sched.Topics{Auto: true}))
	}
}

// FuzzValues checks that no value makes a parser crash, and that parsed values are valid for the other packages.
func FuzzValues(f *testing.F) {
	crewtest.Seeds(f, "1d12h", "exit:1-99,any", "soon,done=10%", "gpu=3", "gpu:0,1,3", "10/1m,burst=5", "5/h")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := task.ParseDuration(s); err == nil {
			require.True(t, d >= 0 && d <= task.MaxDuration)
		}
		if h, err := parseHalt(s); err == nil {
			require.Equal(t, h.When == "", h.N == 0)
		}
		if c, err := parseCap(s); err == nil {
			require.True(t, task.IsCapName(c.Name) && len(c.Units) > 0 && len(strings.Join(c.Units, ",")) <= maxList)
			units := slices.Compact(slices.Sorted(slices.Values(c.Units)))
			require.Len(t, units, len(c.Units))
			require.True(t, units[0] != "" && !slices.ContainsFunc(units, func(u string) bool { return !task.Plain(u) }))
		}
		if r, err := parseRate(s); err == nil {
			require.True(t, r.N > 0 && r.Burst > 0 && r.Period > 0 && r.Period <= task.MaxDuration)
		}
		_, _ = parseRetryOn(s)
	})
}
