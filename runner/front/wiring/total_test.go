package wiring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestTotal checks that the tasks in the unread rest of files are counted, and that the count does not move file
// offsets.
func TestTotal(t *testing.T) {
	type row struct {
		Args  []string
		Piped bool // standard input is a pipe
		Total *int64
	}
	crewtest.Examples(t, "testdata/totals.jsonl", func(t *testing.T, row row) {
		name := filepath.Join(t.TempDir(), "in")
		crewtest.WriteFile(t, name, "a\nb\nc\nd\ne\n", 0o666)
		stdin, err := os.Open(name)
		require.NoError(t, err)
		defer stdin.Close()
		_, err = stdin.Seek(4, 0)
		require.NoError(t, err)
		from := stdin
		if row.Piped {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			defer r.Close()
			defer w.Close()
			from = r
		}
		opts := parsed(t, strings.Split(strings.ReplaceAll(strings.Join(row.Args, "\n"), "$FILE", name), "\n")...)
		total := newTotal(opts, from)
		defer total.close()
		total.source, err = openSource(opts, 1, openShare(opts, nil), from)
		require.NoError(t, err)
		n, ok := total.get(crewtest.Patience)
		require.Equal(t, row.Total != nil, ok)
		require.True(t, !ok || n == *row.Total, "%d", n)
		at, err := stdin.Seek(0, 1)
		require.NoError(t, err)
		require.EqualValues(t, 4, at)
	})
	unasked := newTotal(parsed(t, "echo"), os.Stdin)
	unasked.set(7)
	n, ok := unasked.get(0)
	require.True(t, ok && n == 7, "%d", n)
	unasked.close()
}
