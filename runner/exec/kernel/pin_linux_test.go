//go:build (amd64 || arm64) && !crew_portable

package kernel

import (
	"runtime"
	"testing"

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
	require.Nil(t, p.Take(false), "no brief attempt yet")
	p.Observe(Brief/2, 1)
	require.Nil(t, p.Take(false), "a processor is idle")
	p.Observe(Brief/2, int64(runtime.NumCPU()))
	pin := p.Take(false)
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
	require.Nil(t, p.Take(false), "all are taken")
	for cpu := range p.taken {
		p.taken[cpu].Store(false)
	}
	pin = p.Take(false)
	require.NotNil(t, pin)
	pin.Release()
	p.Observe(2*Brief, int64(runtime.NumCPU()))
	require.Nil(t, p.Take(false))
}
