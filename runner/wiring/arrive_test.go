package wiring

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"crew/runner/control"
	"crew/runner/crewtest"
	"crew/runner/task"
)

// TestArrive: what was left for a crew serve is added once, also by the next one, unless it never can be.
func TestArrive(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", crewtest.ShortDir(t))
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var s *served
		arrive := func(id string, later, wrong bool, values ...task.Bytes) {
			t.Helper()
			line := textOf(control.Request{Op: "add", Add: &control.Addition{Values: values, Lines: len(values) > 1, Dir: "/nowhere", Env: []task.Bytes{"A=b"}}})
			got, err := s.Arrive(id, []byte(line))
			require.Equal(t, []bool{later, wrong}, []bool{got, err != nil}, "%v", err)
		}
		ends := func(want int) {
			t.Helper()
			synctest.Wait()
			s.run.Do(task.Command{Op: task.Stop})
			require.EqualValues(t, want, (<-s.end).Stats.Admitted)
		}
		s = serve(t, "-j1 --max-queued 3 --state "+dir)
		synctest.Wait()
		arrive("a", false, false, "task a", "task b")
		arrive("a", false, false, "task a", "task b")
		arrive("b", false, true, "task a", "task b", "task c", "task d")
		arrive("c", false, false, "task c", "task d")
		later, err := s.Arrive("d", []byte("garbage\n"))
		require.False(t, later)
		require.ErrorContains(t, err, "bad request")
		arrive("e", true, true, "task e", "task f")
		ends(4)
		arrive("e", true, true, "task e", "task f")

		s = serve(t, "-j1 --max-queued 3 --state "+dir)
		synctest.Wait()
		arrive("c", false, false, "task c", "task d")
		ends(4)
	})
}

// What arrives before the run begins does not wait for that, which may never be.
func TestArriveBeforeTheRun(t *testing.T) {
	later, err := newFeed(nil, nil, nil, nil).Arrive("x", nil)
	require.NoError(t, err)
	require.True(t, later)
}
