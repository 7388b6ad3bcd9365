package wiring

import (
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/sink"
)

// With --quiet-success, no line tells a CI server how far the run is.
func TestNoProgressOfSuccess(t *testing.T) {
	t.Setenv("GITHUB_ACTIONS", "true")
	for arg, want := range map[string]sink.Progress{"--quiet-success": sink.ProgressAuto, "--keep-order": sink.ProgressLines} {
		o := parsed(t, arg, "echo")
		require.Equal(t, want, (&wiring{opts: o, plan: planOf(o)}).progress(), arg)
	}
}
