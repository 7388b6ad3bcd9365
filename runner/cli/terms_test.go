package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

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
