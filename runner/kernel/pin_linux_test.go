//go:build (amd64 || arm64) && !crew_portable

package kernel

import (
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func needProcessors(t *testing.T) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil || all.Count() < 2 {
		t.Skip("there is only one processor")
	}
}

func TestPinsAreTakenAndReleased(t *testing.T) {
	needProcessors(t)
	runtime.LockOSThread() // so that both affinities are of the same thread
	defer runtime.UnlockOSThread()
	var p Pins
	require.Nil(t, p.Take(), "no brief attempt yet")
	p.Lasted(Brief/2, 1)
	require.Nil(t, p.Take(), "a processor is idle")
	p.Lasted(Brief/2, int64(runtime.NumCPU()))
	pin := p.Take()
	require.NotNil(t, pin)
	var now unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &now))
	require.Equal(t, 1, now.Count())
	pin.Release()
	require.NoError(t, unix.SchedGetaffinity(0, &now))
	require.Equal(t, pin.all, now)
	for cpu := range p.taken {
		require.False(t, p.taken[cpu].Swap(true), "processor %d", cpu)
	}
	require.Nil(t, p.Take(), "all are taken")
	for cpu := range p.taken {
		p.taken[cpu].Store(false)
	}
	pin = p.Take()
	require.NotNil(t, pin)
	pin.Release()
	p.Lasted(2*Brief, int64(runtime.NumCPU()))
	require.Nil(t, p.Take())
}

func TestWaitsRaiseGOMAXPROCSOnce(t *testing.T) {
	procs := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(procs)
	var p Pins
	lasted := func(n int, d time.Duration, live int) int {
		for range n {
			p.Lasted(d, int64(live))
		}
		return runtime.GOMAXPROCS(0) - procs
	}
	require.Zero(t, lasted(3*manyWaits, noticed/2, 1), "too short to be noticed")
	require.Zero(t, lasted(3*manyWaits, noticed, procs+1), "too many at once")
	require.Zero(t, lasted(manyWaits-1, noticed, procs))
	require.Zero(t, lasted(1, noticed/2, procs))
	require.Zero(t, lasted(manyWaits-1, noticed, procs), "not in a row")
	require.Equal(t, 1, lasted(1, noticed, procs))
	require.Equal(t, 1, lasted(3*manyWaits, noticed, 1))
}

// Whatever else waits for the processor runs before a thread that yields, and for long.
func TestYieldGivesWay(t *testing.T) {
	needProcessors(t)
	p := new(Pins)
	pin := p.TakeAny()
	require.NotNil(t, pin)
	defer pin.Release()
	other := exec.Command("/bin/sh", "-c", "while :; do :; done") // on the same processor
	require.NoError(t, other.Start())
	defer func() { _, _ = other.Process.Kill(), other.Wait() }()
	for end := time.Now().Add(patience); p.until.Load() == 0; pin.Yield() {
		require.True(t, time.Now().Before(end), "the other one has had no turn")
	}
	p.until.Store(int64(time.Since(epoch) + time.Hour))
	var before, after unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &before))
	for range 1000 {
		pin.Yield()
	}
	require.NoError(t, unix.Getrusage(unix.RUSAGE_THREAD, &after))
	require.Less(t, after.Nivcsw-before.Nivcsw, int64(100), "turns of the other one")
}

// ForkExec cannot reset a child's affinity.
func TestAPinnedThreadNeedsClone3(t *testing.T) {
	needProcessors(t)
	s := NewSpawner()
	s.off.Store(true)
	_, err := s.Start("/bin/true", []string{"true"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{}}, nil, &Pin{})
	require.Equal(t, syscall.EINVAL, err)
}
