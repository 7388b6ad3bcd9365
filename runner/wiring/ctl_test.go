package wiring

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/cli"
	"crew/runner/control"
	"crew/runner/crewtest"
)

// TestStopAll: crew ctl stop --all lists the runs before it stops them. Here it knows of two only, so
// that the test ends none of its user's.
func TestStopAll(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", crewtest.ShortDir(t))
	a, b := startRun(t, "a"), startRun(t, "b")
	runs := slices.DeleteFunc(control.List(), func(h control.Hello) bool { return h.PID != a.Process.Pid && h.PID != b.Process.Pid })
	require.Len(t, runs, 2)
	out, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	require.NoError(t, (&ctl{Ctl: &cli.Ctl{All: true}, verb: "stop", out: out, errs: out}).stopAll(runs))
	text, err := os.ReadFile(out.Name())
	require.NoError(t, err)
	require.Regexp(t, `(?m)\Astopping \d+ \(a\): running since .*\nstopping \d+ \(b\): running .*: crew .*\n\z`, string(text))
	require.Error(t, a.Wait())
	require.Error(t, b.Wait())
}
