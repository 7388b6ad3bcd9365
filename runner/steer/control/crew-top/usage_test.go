package main

import (
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/exec/kernel"
)

// TestMeter checks that the processes of a task are its group and their descendants, also in other
// groups, and that the usage of children that ended is not lost.
func TestMeter(t *testing.T) {
	start := time.Unix(1000, 0)
	attempts := map[int]time.Time{30: start} // it has ended
	var list []kernel.Process
	m := &meter{list: func() []kernel.Process { return list }}
	rows, _ := crewtest.Rows[struct {
		Began, At time.Duration
		Processes []kernel.Process
		Used      time.Duration
		CPU       float64
		Memory    int64
	}]("testdata/processes.jsonl")
	for _, row := range rows {
		list = row.Processes
		attempts[10] = start.Add(row.Began)
		require.Equal(t, map[int]usage{10: {row.Used, row.CPU, row.Memory}}, m.measure(start.Add(row.At), attempts))
	}
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
}
