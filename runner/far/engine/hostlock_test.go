package engine

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// Only locks of workers are removed from the directory of locks when they are old.
func TestRemoveStaleLocks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"worker.notes": "my notes\n", "worker.empty": "",
		"worker.old": "crew worker a-b\n", "worker.none": "crew worker \n", "worker.new": "crew worker a-b\n",
	} {
		path := filepath.Join(dir, name)
		crewtest.WriteFile(t, path, text, 0o600)
		if name != "worker.new" {
			require.NoError(t, os.Chtimes(path, time.Time{}, time.Now().Add(-2*lockKept)))
		}
	}
	removeStaleLocks(dir)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	require.Equal(t, []string{"worker.empty", "worker.new", "worker.notes"}, left)
}

// TestSilence: a worker whose server falls silent has time to renew its lease at another one. With --ssh,
// where there is no other, its connection survives a silence as long as its lease.
func TestSilence(t *testing.T) {
	const standard = 10 * time.Second
	for _, ttl := range []time.Duration{time.Second, standard, time.Hour} {
		o := nats.Options{}
		(&session{}).configure(&o)
		silence := func() time.Duration { return o.PingInterval * time.Duration(o.MaxPingsOut+1) }
		require.Less(t, standard/4+silence(), standard*fence/100)
		require.NoError(t, dialStdio(ttl, nil)(&o))
		require.GreaterOrEqual(t, silence(), ttl)
	}
}
