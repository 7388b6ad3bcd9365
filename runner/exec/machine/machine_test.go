package machine

import (
	"math"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

func file(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

// machineWith returns a machine with the given files.
func machineWith(root fstest.MapFS) *Machine {
	return &Machine{func(name string) ([]byte, error) { return root.ReadFile(name[1:]) }}
}

// machineRow is a row of testdata/machines.jsonl.
type machineRow struct {
	Does, Why string
	Files     map[string]string
	User      int64
	Want      []int64
}

func TestFigures(t *testing.T) {
	crewtest.Examples(t, "testdata/machines.jsonl", func(t *testing.T, row machineRow) {
		root := fstest.MapFS{}
		for name, text := range row.Files {
			root[name] = file(text)
		}
		var got []int64
		var err error
		switch m := machineWith(root); row.Does {
		case "processors":
			got = []int64{int64(m.processors(8))}
		case "processes":
			got = []int64{m.processes(row.User, func() int64 { return 6 })}
		case "memory":
			var free, total int64
			free, total, err = m.Memory()
			got = []int64{free, total}
		case "load":
			var load float64
			load, err = m.Load()
			got = []int64{int64(load)}
		}
		require.Equal(t, row.Want == nil, err != nil, row.Why)
		require.True(t, err != nil || slices.Equal(row.Want, got), "%s: %v", row.Why, got)
	})
	require.Positive(t, New("").Processes())
}

func TestOOMKills(t *testing.T) {
	for _, root := range []fstest.MapFS{
		{"proc/vmstat": file("nr_free_pages 3\noom_kill 7\n")},
		{"proc/self/cgroup": file("0::/a\n"), "proc/vmstat": file("oom_kill 1\n"),
			"sys/fs/cgroup/a/memory.events": file("oom 1\noom_kill 7\n"), "sys/fs/cgroup/memory.events": file("oom_kill 99\n")},
	} {
		last := "proc/vmstat"
		if root["sys/fs/cgroup/a/memory.events"] != nil {
			last = "sys/fs/cgroup/a/memory.events"
		}
		d, now := &OOMKills{machine: machineWith(root), count: math.MaxInt64}, time.Unix(1e9, 0)
		d.look(now)
		require.False(t, d.Claim())
		root[last] = file("oom_kill 9\n")
		require.True(t, d.Claim())
		require.True(t, d.Claim(), "both were killed at once")
		require.False(t, d.Claim())
		root[last] = file("oom_kill 12\n")
		d.look(time.Now())
		require.EqualValues(t, 3, d.unclaimed)
		d.look(time.Now().Add(2 * claimWithin))
		require.Zero(t, d.unclaimed, "they were processes of another group")
	}
	d := NewOOMKills(machineWith(fstest.MapFS{}))
	defer d.Close()
	require.False(t, d.Claim(), "nothing counts them")
}
