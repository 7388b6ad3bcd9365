package wiring

import (
	"math"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestJobs(t *testing.T) {
	eight := func() int { return 8 }
	for in, want := range map[string]int{
		"100%": 8, "50%": 4, "10%": 1, "300%": 24, "0%": 1, "13%": 1,
		"+0": 8, "+2": 10, "-1": 7, "-0": 8, "-8": 1, "-20": 1,
	} {
		n, ok := parseJobs(in, eight)
		require.True(t, ok, in)
		require.Equal(t, want, n, in)
	}
	for in, want := range map[string]int{"4": 4, "1": 1, "0": 0, "1048576": 1 << 20} {
		n, ok := parseJobs(in, nil) // which asks nothing of the machine
		require.True(t, ok, in)
		require.Equal(t, want, n, in)
	}
	for _, in := range []string{"", "x", "4x", "%", "+", "-", "--1", "+-1", "1.5", "4 ", " 4", "50%%", "+5%", "1048577", "99999999999999999999", "0x4", "٤"} {
		_, ok := parseJobs(in, nil)
		require.False(t, ok, in)
	}
	require.GreaterOrEqual(t, hereMost(), 1)
	require.LessOrEqual(t, hereMost(), mostJobs)
	require.GreaterOrEqual(t, hereProcessors(), 1)
	require.Equal(t, uint64(math.MaxUint64), limit(-1))
}

func TestMostTasks(t *testing.T) {
	for _, c := range []struct {
		files, processes uint64
		want             int
	}{
		{1024, math.MaxUint64, 248},
		{math.MaxUint64, math.MaxUint64, mostJobs},
		{1 << 20, 100, 50},
		{10, 100, 1},
		{36, 1, 1},
		{40, 1, 1},
	} {
		require.Equal(t, c.want, mostTasks(c.files, c.processes))
	}
}

func TestProcessors(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
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
			readFile := func(name string) ([]byte, error) { return c.root.ReadFile(name[1:]) }
			require.Equal(t, c.want, processors(readFile, 8))
		})
	}
}
