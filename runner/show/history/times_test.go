package history

import (
	"maps"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// TestTimes checks the times of commands from several sources.
func TestTimes(t *testing.T) {
	crewtest.Examples(t, "testdata/times.jsonl", func(t *testing.T, c struct {
		It      string
		Sources []string           // their texts
		Knows   map[string]float64 // seconds, by command lines
		Of      []struct {
			Task  task.Task
			Takes float64 // 0 if that is unknown
		}
		Error string
	}) {
		path := filepath.Join(t.TempDir(), "source")
		var times Times
		for i, text := range c.Sources {
			crewtest.WriteFile(t, path, text, 0o666)
			if err := times.Add(path); c.Error != "" && i == len(c.Sources)-1 {
				require.ErrorContains(t, err, c.Error)
			} else {
				require.NoError(t, err)
			}
		}
		knows := map[string]float64{}
		for command, took := range maps.Collect(times.All()) {
			knows[command] = took.Seconds()
		}
		require.Equal(t, c.Knows, knows, c.It)
		for _, of := range c.Of {
			_, took, ok := times.Of(&of.Task)
			require.Equal(t, time.Duration(of.Takes*1e9), took, of.Task.Argv)
			require.Equal(t, of.Takes > 0, ok)
		}
	})
}
