package wiring

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

// TestArrive checks that a request that was left for a crew serve is added once, by this one or the next one,
// unless it is wrong.
func TestArrive(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", crewtest.ShortDir(t))
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var s *served
		var unique *task.Bytes
		arrive := func(id string, later, wrong bool, values ...task.Bytes) {
			t.Helper()
			line := textOf(control.Request{Op: "add", Add: &control.Addition{Unique: unique, Values: values, Lines: len(values) > 1, Dir: "/nowhere", Env: []task.Bytes{"A=b"}}})
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
		arrive("a", false, false, "task a", "task b", "task c", "task d", "task e") // more than --max-queued
		arrive("a", false, false, "task a", "task b", "task c", "task d", "task e")
		later, err := s.Arrive("b", []byte("garbage\n"))
		require.False(t, later)
		require.ErrorContains(t, err, "bad request")
		arrive("c", true, true, "task f", "task g")
		ends(5)
		arrive("c", true, true, "task f", "task g")

		s = serve(t, "-j6 --max-queued 3 --state "+dir)
		synctest.Wait()
		arrive("a", false, false, "task a", "task b")
		unique = new(task.Bytes)
		arrive("c", false, false, "task f", "task g")
		arrive("u", false, false, "task f", "task g")
		require.True(t, s.queue.Delivered("u"))
		unique = nil
		synctest.Wait()
		arrive("d", true, true, "task h", "task i", "task j", "task k")
		ends(7)
	})
}

// TestArriveBeforeTheRun checks that a request that arrives before the run starts does not wait for the run,
// which may never start.
func TestArriveBeforeTheRun(t *testing.T) {
	later, err := newFeed(nil, nil, nil, nil).Arrive("x", nil)
	require.Error(t, err)
	require.True(t, later)
}

// TestUniqueAtOnce checks that additions that are admitted together know of each other.
func TestUniqueAtOnce(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", crewtest.ShortDir(t))
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, "-j1 --max-queued 3")
		synctest.Wait()
		var list []*addition
		var got [][2][]uint64
		for _, unique := range []*task.Bytes{nil, new(task.Bytes), new(task.Bytes), nil} {
			list = append(list, &addition{
				Addition: &control.Addition{Lines: true, Values: []task.Bytes{"task a", "task a"}, Unique: unique},
				accepted: func(ids, known []uint64) { got = append(got, [2][]uint64{ids, known}) },
			})
		}
		s.turn.Lock()
		s.admit(list)
		s.turn.Unlock()
		require.Equal(t, [][2][]uint64{{{1, 2}, nil}, {{3, 3}, nil}, {{3, 3}, {3, 3}}}, got)
		require.EqualError(t, list[3].err, task.ErrFull.Error())
		synctest.Wait()
		s.run.Do(task.Command{Op: task.Stop})
		require.EqualValues(t, 3, (<-s.end).Stats.Admitted)
	})
}
