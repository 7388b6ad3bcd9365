//go:build !crew_portable

package sink

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/exec/kernel"
)

// TestStreamsAreReadInOrder checks that stderr waits until stdout has been read.
func TestStreamsAreReadInOrder(t *testing.T) {
	fromOut, out, err := os.Pipe()
	require.NoError(t, err)
	fromErr, errs, err := os.Pipe()
	require.NoError(t, err)
	s := NewScreen(out, errs)
	s.FenceOwnLines(testFence)
	begin, said := time.Now(), make(chan struct{})
	show(t, s, 0, "one")
	go func() {
		defer close(said)
		s.Say("two")
		out.Close()
		errs.Close()
	}()
	for range 100 {
		n, err := kernel.Unread(int(fromErr.Fd()))
		require.NoError(t, err)
		require.True(t, n == 0 || time.Since(begin) > readTimeout, "it has been written too early")
		time.Sleep(100 * time.Microsecond)
	}
	var text strings.Builder
	_, err = io.CopyN(&text, fromOut, 3)
	require.NoError(t, err)
	_, err = io.Copy(&text, fromErr)
	require.NoError(t, err)
	<-said
	require.Equal(t, "onetwo", strings.ReplaceAll(text.String(), "\n", ""))
}
