package wiring

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A file is believed once it stays the same, and one that is gone once it stays away.
func TestWatch(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	text := ""
	grow := func() {
		text += "x"
		require.NoError(t, os.WriteFile(name, []byte(text), 0o666))
	}
	grow()
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan error, 10)
		stop := watch([]string{name}, time.Second, func(gone error) { calls <- gone })
		defer stop()
		time.Sleep(time.Second / 2)     // between two looks
		next := func() (list []error) { // the calls of a look
			time.Sleep(time.Second)
			synctest.Wait()
			for len(calls) > 0 {
				list = append(list, <-calls)
			}
			return list
		}
		require.Empty(t, next())
		require.Equal(t, []error{nil}, next(), "as it was at the start")
		require.Empty(t, next())
		for range 5 {
			grow()
			require.Empty(t, next(), "it is being written")
		}
		require.Equal(t, []error{nil}, next())
		require.NoError(t, os.Remove(name))
		require.Empty(t, next())
		grow()
		require.Empty(t, next(), "it was replaced")
		require.Equal(t, []error{nil}, next())
		require.NoError(t, os.Remove(name))
		require.Empty(t, next())
		gone := next()
		require.Len(t, gone, 1)
		require.ErrorIs(t, gone[0], os.ErrNotExist)
		require.Empty(t, next())
	})
}
