package history

import (
	"bytes"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"
)

// FuzzRead checks that any file is read to its end, that each run begins before its other lines, and
// that the sizes of reads do not matter.
func FuzzRead(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		first := true
		var lines, again []string
		all := briefs(&lines)
		err := ReadStream("x", bytes.NewReader(text), func(l *Line) {
			require.True(t, !first || l.Name == Began || l.Name == Damaged, l.Name)
			first = false
			require.GreaterOrEqual(t, l.Duration, 0*l.Duration)
			require.LessOrEqual(t, l.At.Year(), 2600)
			require.LessOrEqual(t, len(l.Output), tailBytes)
			_ = l.Start.Add(time.Duration(l.Duration))
			all(l)
		})
		if err != nil {
			require.ErrorContains(t, err, "no joblog")
			require.Empty(t, lines)
		}
		again = nil
		require.Equal(t, err, ReadStream("x", iotest.OneByteReader(bytes.NewReader(text)), briefs(&again)))
		require.Equal(t, lines, again)
	})
}
