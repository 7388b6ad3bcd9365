package journal

import (
	"os"
	"testing"

	"crew/runner/crewtest"
)

// TestMain runs the tests in parallel, because most of them wait for the disk.
func TestMain(m *testing.M) { os.Exit(crewtest.Main{M: m, Parallel: 16}.Run()) }
