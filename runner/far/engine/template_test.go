package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/front/wiring"
)

func TestDigest(t *testing.T) {
	t.Parallel()
	rows, _ := crewtest.Rows[struct {
		Template wiring.Template
		Text     string
	}]("testdata/templates.jsonl")
	seen := map[[32]byte]bool{}
	for _, row := range rows {
		sum, text := digest(row.Template)
		require.Equal(t, row.Text, text)
		require.False(t, seen[sum], text)
		seen[sum] = true
		row.Template.Names = []string{"x"}
		again, _ := digest(row.Template)
		require.Equal(t, sum, again, "names of columns travel with the tasks")
	}
}
