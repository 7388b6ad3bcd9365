package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// putProcess writes the stat of a process into a directory that stands in for /proc.
func putProcess(t *testing.T, root string, pid, parent, group int, ticks, childTicks, pages int64) {
	dir := filepath.Join(root, strconv.Itoa(pid))
	require.NoError(t, os.MkdirAll(dir, 0o755))
	stat := fmt.Sprintf("%d (a ) b) S %d %d 1 0 -1 0 0 0 0 0 %d 0 %d 0 20 0 1 0 100 4096 %d 0\n",
		pid, parent, group, ticks, childTicks, pages)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644))
}

// A task's processes are its group and their descendants, also in other groups. What
// children that have ended used does not get lost.
func TestMeter(t *testing.T) {
	root, page := t.TempDir(), int64(os.Getpagesize())
	putProcess(t, root, 1, 0, 1, 999, 0, 999)
	putProcess(t, root, 10, 1, 10, 100, 0, 5)    // the attempt
	putProcess(t, root, 11, 10, 10, 50, 0, 3)    // its child
	putProcess(t, root, 12, 11, 12, 50, 0, 2)    // a grandchild in a group of its own
	putProcess(t, root, 13, 1, 10, 0, 0, 1)      // an orphan of its group
	putProcess(t, root, 20, 1, 20, 777, 0, 1000) // another's
	start := time.Unix(1000, 0)
	attempts := map[int]time.Time{10: start, 30: start} // 30 has ended
	m := &meter{root: root}

	// The first figure is the mean since the start.
	require.Equal(t, map[int]usage{10: {cpu: 0.5, memory: 11 * page}}, m.measure(start.Add(4*time.Second), attempts))

	// The child ends, and its parent inherits its time.
	require.NoError(t, os.RemoveAll(filepath.Join(root, "11")))
	putProcess(t, root, 12, 10, 12, 50, 0, 2)
	putProcess(t, root, 10, 1, 10, 250, 50, 5)
	require.Equal(t, map[int]usage{10: {cpu: 1.5, memory: 8 * page}}, m.measure(start.Add(5*time.Second), attempts))

	// The id is used again by another attempt.
	require.NoError(t, os.RemoveAll(filepath.Join(root, "12")))
	putProcess(t, root, 10, 1, 10, 20, 0, 5)
	attempts[10] = start.Add(6 * time.Second)
	require.Equal(t, map[int]usage{10: {cpu: 0.2, memory: 6 * page}}, m.measure(start.Add(7*time.Second), attempts))

	require.Empty(t, m.measure(start.Add(8*time.Second), nil))
}

// Where there is no /proc, ps(1) knows the same processes.
func TestMeterElsewhere(t *testing.T) {
	own := listed()[os.Getpid()]
	require.NotNil(t, own)
	require.Equal(t, os.Getppid(), own.parent)
	require.Equal(t, syscall.Getpgrp(), own.group)
	require.Greater(t, own.pages*int64(os.Getpagesize()), int64(1<<20))
	used := (&meter{root: t.TempDir()}).measure(time.Now(), map[int]time.Time{os.Getpid(): time.Now()})
	require.Contains(t, used, os.Getpid())

	for text, ticks := range map[string]int64{"0:01.29": 129, "75:00.50": 450_050, "00:00:41": 4100, "1:02:03": 372_300, "2-01:00:00": 17_640_000} {
		require.Equal(t, ticks, ticksOf(text), text)
	}
}
