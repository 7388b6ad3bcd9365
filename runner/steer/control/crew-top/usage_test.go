package main

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/exec/kernel"
)

// TestMeter checks that the processes of a task are its group and their descendants, also in other
// groups, and that the usage of children that ended is not lost.
func TestMeter(t *testing.T) {
	var list []kernel.Process
	put := func(pid, parent, group int, used, memory int64) {
		list = append(list, kernel.Process{PID: pid, Parent: parent, Group: group, Used: time.Duration(used) * tick, Memory: memory})
	}
	put(1, 0, 1, 999, 999)
	put(10, 1, 10, 100, 5)    // the attempt
	put(11, 10, 10, 50, 3)    // its child
	put(12, 11, 12, 50, 2)    // a grandchild in a group of its own
	put(13, 1, 10, 0, 1)      // an orphan of its group
	put(20, 1, 20, 777, 1000) // another's
	start := time.Unix(1000, 0)
	attempts := map[int]time.Time{10: start, 30: start} // 30 has ended
	m := &meter{list: func() []kernel.Process { return list }}

	// The first figure is the mean since the start.
	require.Equal(t, map[int]usage{10: {2 * time.Second, 0.5, 11}}, m.measure(start.Add(4*time.Second), attempts))

	// The child ends, and its parent inherits its time.
	list = nil
	put(10, 1, 10, 300, 5)
	put(12, 10, 12, 50, 2)
	put(13, 1, 10, 0, 1)
	require.Equal(t, map[int]usage{10: {3500 * time.Millisecond, 1.5, 8}}, m.measure(start.Add(5*time.Second), attempts))

	// The id is used again by another attempt.
	list = nil
	put(10, 1, 10, 20, 5)
	attempts[10] = start.Add(6 * time.Second)
	require.Equal(t, map[int]usage{10: {200 * time.Millisecond, 0.2, 5}}, m.measure(start.Add(7*time.Second), attempts))

	require.Empty(t, m.measure(start.Add(8*time.Second), nil))
}

// TestMeterElsewhere checks that ps(1) lists the same processes, for systems that need it.
func TestMeterElsewhere(t *testing.T) {
	for _, all := range [][]kernel.Process{listed(), processes()} {
		i := slices.IndexFunc(all, func(p kernel.Process) bool { return p.PID == os.Getpid() })
		require.GreaterOrEqual(t, i, 0)
		require.Equal(t, os.Getppid(), all[i].Parent)
		require.Equal(t, syscall.Getpgrp(), all[i].Group)
		require.Greater(t, all[i].Memory, int64(1<<20))
	}
	for text, used := range map[string]string{"0:01.29": "1.29s", "75:00.50": "75m0.5s", "00:00:41": "41s", "1:02:03": "1h2m3s", "2-01:00:00": "49h0m0s"} {
		want, _ := time.ParseDuration(used)
		require.Equal(t, want, usedBy(text), text)
	}
}
