//go:build !crew_portable

package wiring

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/core"
	"crew/runner/exec/machine"
)

func TestBoundsOf(t *testing.T) {
	type row struct {
		Line, Error string
		core.Machine
		Each, Unknown bool // Unknown: the machine reports neither
	}
	crewtest.Examples(t, "testdata/bounds.jsonl", func(t *testing.T, row row) {
		root := t.TempDir()
		m := machine.New(root)
		if !row.Unknown {
			require.NoError(t, os.CopyFS(filepath.Join(root, "proc"), os.DirFS("testdata/proc")))
		}
		if row.Each {
			row.Load *= float64(machine.New("").Processors())
		}
		got, err := machineBounds(parsed(t, strings.Fields(row.Line)...), m)
		if row.Error != "" {
			require.ErrorContains(t, err, row.Error)
			return
		}
		require.NoError(t, err)
		require.Equal(t, row.Machine, got)
	})
}
