//go:build !linux || crew_portable

package machine

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of the real machine no more than the processors is known.
func TestHere(t *testing.T) {
	m := New("")
	require.Equal(t, runtime.NumCPU(), m.Processors())
	_, err := m.Load()
	require.EqualError(t, err, "this system does not provide it")
	_, _, err = m.Memory()
	require.EqualError(t, err, "this system does not provide it")
	d := NewOOMKills(m)
	defer d.Close()
	require.False(t, d.Claim())
}
