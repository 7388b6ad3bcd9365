package machine

import (
	"math"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
)

func file(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

// of returns a machine with these files.
func of(root fstest.MapFS) *Machine {
	return &Machine{func(name string) ([]byte, error) { return root.ReadFile(name[1:]) }}
}

func TestProcessors(t *testing.T) {
	for _, c := range []struct {
		name string
		root fstest.MapFS
		want int
	}{
		{"no control groups", fstest.MapFS{}, 8},
		{"no limit", fstest.MapFS{
			"proc/self/cgroup":           file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/cpu.max":  file("max 100000\n"),
			"sys/fs/cgroup/a/cpu.weight": file("100\n"),
		}, 8},
		{"own limit, rounded up", fstest.MapFS{
			"proc/self/cgroup":          file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/cpu.max": file("150000 100000\n"),
		}, 2},
		{"the parent's limit is less", fstest.MapFS{
			"proc/self/cgroup":          file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/cpu.max": file("400000 100000\n"),
			"sys/fs/cgroup/a/cpu.max":   file("300000 100000\n"),
		}, 3},
		{"less than one", fstest.MapFS{
			"proc/self/cgroup":      file("0::/\n"),
			"sys/fs/cgroup/cpu.max": file("10000 100000\n"),
		}, 1},
		{"more than the affinity", fstest.MapFS{
			"proc/self/cgroup":      file("0::/\n"),
			"sys/fs/cgroup/cpu.max": file("1600000 100000\n"),
		}, 8},
		{"above the namespace", fstest.MapFS{
			"proc/self/cgroup":      file("0::/../..\n"),
			"sys/fs/cgroup/cpu.max": file("200000 100000\n"),
		}, 2},
		{"version 1", fstest.MapFS{
			"proc/self/cgroup": file("5:memory:/x\n4:cpu,cpuacct:/x\n0::/\n"),
			"sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_quota_us":  file("250000\n"),
			"sys/fs/cgroup/cpu,cpuacct/x/cpu.cfs_period_us": file("100000\n"),
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":    file("-1\n"),
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us":   file("100000\n"),
		}, 3},
		{"version 1 in a container", fstest.MapFS{
			"proc/self/cgroup":                    file("4:cpuset,cpu:/docker/0123\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":  file("400000\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": file("100000\n"),
		}, 4},
		{"nonsense", fstest.MapFS{
			"proc/self/cgroup":                    file("x\n\n0::/\n3:cpu:/\n"),
			"sys/fs/cgroup/cpu.max":               file("many few\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us":  file("100000\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_period_us": file("0\n"),
		}, 8},
		{"a period missing", fstest.MapFS{
			"proc/self/cgroup":                   file("3:cpu:/\n"),
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": file("100000\n"),
		}, 8},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, of(c.root).processors(8))
		})
	}
}

func TestProcesses(t *testing.T) {
	of2 := fstest.MapFS{
		"proc/self/cgroup":               file("0::/a/b\n"),
		"sys/fs/cgroup/a/b/pids.max":     file("max\n"),
		"sys/fs/cgroup/a/b/pids.current": file("8\n"),
		"sys/fs/cgroup/a/pids.max":       file("50\n"),
		"sys/fs/cgroup/a/pids.current":   file("30\n"),
	}
	of1 := fstest.MapFS{
		"proc/self/cgroup":                  file("8:pids:/x\n0::/\n"),
		"sys/fs/cgroup/pids/x/pids.max":     file("16\n"),
		"sys/fs/cgroup/pids/x/pids.current": file("7\n"),
		"sys/fs/cgroup/pids/pids.max":       file("1000\n"),
		"sys/fs/cgroup/pids/pids.current":   file("995\n"),
		"sys/fs/cgroup/unified/pids.max":    file("1\n"),
	}
	for _, c := range []struct {
		root       fstest.MapFS
		user, want int64
	}{
		{fstest.MapFS{}, math.MaxInt64, math.MaxInt64},
		{of2, math.MaxInt64, 50 - 30 + 6},
		{of2, 20, 20},
		{of1, 4000, 1000 - 995 + 6},
	} {
		require.Equal(t, c.want, of(c.root).processes(c.user, func() int64 { return 6 }))
	}
	require.Positive(t, New("").Processes())
}

const meminfo = "MemTotal:       16000000 kB\nMemFree:         1000000 kB\nMemAvailable:    8000000 kB\n"

func TestMemory(t *testing.T) {
	const none = "9223372036854771712\n"
	for _, c := range []struct {
		name        string
		root        fstest.MapFS
		free, total int64
	}{
		{"no control groups", fstest.MapFS{}, 8_000_000 << 10, 16_000_000 << 10},
		{"no limit", fstest.MapFS{
			"proc/self/cgroup":             file("0::/a\n"),
			"sys/fs/cgroup/a/memory.max":   file("max\n"),
			"sys/fs/cgroup/memory.current": file("1000\n"),
		}, 8_000_000 << 10, 16_000_000 << 10},
		{"own limit, and its cache", fstest.MapFS{
			"proc/self/cgroup":                 file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max":     file("1000000\n"),
			"sys/fs/cgroup/a/b/memory.current": file("700000\n"),
			"sys/fs/cgroup/a/b/memory.stat":    file("anon 600000\nfile 100000\ninactive_file 90000\n"),
		}, 390_000, 1_000_000},
		{"the parent's limit is nearer", fstest.MapFS{
			"proc/self/cgroup":                 file("0::/a/b\n"),
			"sys/fs/cgroup/a/b/memory.max":     file("1000000\n"),
			"sys/fs/cgroup/a/b/memory.current": file("100000\n"),
			"sys/fs/cgroup/a/memory.max":       file("2000000\n"),
			"sys/fs/cgroup/a/memory.current":   file("1950000\n"),
		}, 900_000, 1_000_000},
		{"past the limit", fstest.MapFS{
			"proc/self/cgroup":             file("0::/\n"),
			"sys/fs/cgroup/memory.max":     file("1000\n"),
			"sys/fs/cgroup/memory.current": file("1500\n"),
		}, 0, 1000},
		{"less is available than the group allows", fstest.MapFS{
			"proc/self/cgroup":             file("0::/\n"),
			"sys/fs/cgroup/memory.max":     file("12000000000\n"),
			"sys/fs/cgroup/memory.current": file("0\n"),
		}, 8_000_000 << 10, 12_000_000_000},
		{"version 1 in a container", fstest.MapFS{
			"proc/self/cgroup":                           file("5:memory:/docker/x\n0::/\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("1000000\n"),
			"sys/fs/cgroup/memory/memory.usage_in_bytes": file("900000\n"),
			"sys/fs/cgroup/memory/memory.stat":           file("inactive_file 1\ntotal_inactive_file 200000\n"),
		}, 300_000, 1_000_000},
		{"version 1 without a limit", fstest.MapFS{
			"proc/self/cgroup": file("5:memory:/x\n"),
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": file(none),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":   file(none),
		}, 8_000_000 << 10, 16_000_000 << 10},
	} {
		c.root["proc/meminfo"] = file(meminfo)
		free, total, err := of(c.root).Memory()
		require.NoError(t, err, c.name)
		require.Equal(t, [2]int64{c.free, c.total}, [2]int64{free, total}, c.name)
	}
	for _, text := range []string{"", "MemTotal: x kB\nMemAvailable: 1 kB\n", "MemTotal: 10 kB\n"} {
		_, _, err := of(fstest.MapFS{"proc/meminfo": file(text)}).Memory()
		require.Error(t, err, text)
	}
	_, _, err := of(fstest.MapFS{}).Memory()
	require.Error(t, err)
}

func TestLoad(t *testing.T) {
	for text, want := range map[string]float64{
		"cpu  1 2 3\nintr 5 0 0\nctxt 9\nprocs_running 3\nprocs_blocked 2\nsoftirq 1\n": 4,
		"procs_running 1\nprocs_blocked 0\n":                                            0,
		"procs_running 0\nprocs_blocked 0\n":                                            0,
	} {
		load, err := of(fstest.MapFS{"proc/stat": file(text)}).Load()
		require.NoError(t, err)
		require.Equal(t, want, load, text)
	}
	for _, text := range []string{"", "procs_running 3\n", "procs_running many\nprocs_blocked 0\n"} {
		_, err := of(fstest.MapFS{"proc/stat": file(text)}).Load()
		require.Error(t, err, text)
	}
}

func TestDeaths(t *testing.T) {
	for _, root := range []fstest.MapFS{
		{"proc/vmstat": file("nr_free_pages 3\noom_kill 7\n")},
		{"proc/self/cgroup": file("0::/a\n"), "proc/vmstat": file("oom_kill 1\n"),
			"sys/fs/cgroup/a/memory.events": file("oom 1\noom_kill 7\n"), "sys/fs/cgroup/memory.events": file("oom_kill 99\n")},
	} {
		last := "proc/vmstat"
		if root["sys/fs/cgroup/a/memory.events"] != nil {
			last = "sys/fs/cgroup/a/memory.events"
		}
		d, now := &Deaths{machine: of(root)}, time.Unix(1e9, 0)
		d.look(now)
		require.False(t, d.Another())
		root[last] = file("oom_kill 9\n")
		require.True(t, d.Another())
		require.True(t, d.Another(), "both were killed at once")
		require.False(t, d.Another())
		root[last] = file("oom_kill 12\n")
		d.look(time.Now())
		require.EqualValues(t, 3, d.untold)
		d.look(time.Now().Add(2 * tellsFor))
		require.Zero(t, d.untold, "they were somebody else's")
	}
	d := NewDeaths(of(fstest.MapFS{}))
	defer d.Close()
	require.False(t, d.Another(), "nothing counts them")
}

func BenchmarkFigures(b *testing.B) {
	m := New("")
	for name, f := range map[string]func(){
		"load": func() { _, _ = m.Load() }, "memory": func() { _, _, _ = m.Memory() }, "deaths": func() { _, _ = m.deaths() },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				f()
			}
		})
	}
}
