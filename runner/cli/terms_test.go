package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

func TestParseCap(t *testing.T) {
	for s, want := range map[string]task.Cap{
		"gpu=3":               {Name: "gpu", Units: []string{"0", "1", "2"}},
		"gpu:0,1,3":           {Name: "gpu", Units: []string{"0", "1", "3"}},
		"A_b2:GPU-1f.x,_,.-x": {Name: "A_b2", Units: []string{"GPU-1f.x", "_", ".-x"}},
	} {
		got, err := parseCap(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got)
	}
	big, err := parseCap("mem=10000")
	require.NoError(t, err)
	require.Len(t, big.Units, task.MostUnits)
	require.Equal(t, "9999", big.Units[9999])
	const (
		form = "write NAME=N or NAME:UNIT,UNIT, such as gpu=3 or gpu:0,1,3"
		name = "write a name of letters, digits and _ that begins with a letter, and that nothing else has as {name} or CREW_NAME"
		n    = "write a whole number from 1 to 10000; of more units, let one stand for several"
		unit = "write units of letters, digits, dots, hyphens and _, with commas between them: "
	)
	for s, want := range map[string]string{
		"": form, "gpu": form, "3": form, "=3": name, ":0": name, "g-u=1": name, "worker=2": name, "Host:a": name, "out2=1": name, "gpu=0": n,
		"gpu=": n, "gpu=-1": n, "gpu=10001": n, "gpu=1,2": n, "gpu=0:1": n, "gpu:": unit + "'' is none", "gpu:0,,1": unit + "'' is none",
		"gpu:-x": unit + "-x is none", "gpu:a b": unit + "'a b' is none", "gpu:$(x)": unit + "'$(x)' is none", "gpu:a=b": unit + "a=b is none",
		"gpu:é": unit + "'é' is none", "gpu:0,1,0": "write each unit once: 0 is there twice",
		"gpu:" + strings.Repeat("a", 300): unit + "'" + strings.Repeat("a", 40) + "…' is none",
	} {
		_, err := parseCap(s)
		require.EqualError(t, err, want, s)
	}
}

func TestParseRate(t *testing.T) {
	for s, want := range map[string]task.Rate{
		"100/s": {N: 100, Period: time.Second, Burst: 1}, "5000/h": {N: 5000, Period: time.Hour, Burst: 1}, "1/d": {N: 1, Period: 24 * time.Hour, Burst: 1},
		"10/1m30s,burst=5": {N: 10, Period: 90 * time.Second, Burst: 5}, "1/2.5": {N: 1, Period: 2500 * time.Millisecond, Burst: 1},
	} {
		got, err := parseRate(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got)
	}
	for _, s := range []string{
		"", "1", "/s", "0/s", "-1/s", "+1/s", "1.5/s", "1/", "1/0", "1/x", "1/-1s", "1/s,burst=0", "1/s,burst=", "1/s,burst=1,burst=2", "1/s,5", "1/s/s",
		"1000001/s",
	} {
		_, err := parseRate(s)
		require.EqualError(t, err, "write up to 1000000 starts and a time, such as 100/s, 5000/h or 10/1m30s,burst=5", s)
	}
}

// FuzzTerms: whatever is read is what the other packages take.
func FuzzTerms(f *testing.F) {
	for _, s := range []string{"gpu=3", "gpu:0,1,3", "10/1m,burst=5", "5/h"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := parseCap(s); err == nil {
			require.True(t, task.IsCapName(c.Name) && len(c.Units) > 0)
			seen := map[string]bool{"": true}
			for _, u := range c.Units {
				require.True(t, task.Plain(u) && !seen[u], "%q", u)
				seen[u] = true
			}
			require.LessOrEqual(t, len(strings.Join(c.Units, ",")), mostList)
		}
		if r, err := parseRate(s); err == nil {
			require.True(t, r.N > 0 && r.Burst > 0 && r.Period > 0 && r.Period <= task.MaxDuration)
		}
	})
}
