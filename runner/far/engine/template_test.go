package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/front/cli"
)

func TestDigest(t *testing.T) {
	t.Parallel()
	rows, _ := crewtest.Rows[struct {
		Options cli.Options
		Text    string
	}]("testdata/templates.jsonl")
	seen := map[[32]byte]bool{}
	for _, row := range rows {
		sum, text := digest(&row.Options)
		require.Equal(t, row.Text, text)
		require.False(t, seen[sum], text)
		seen[sum] = true
	}
}
