package journal

import (
	"os"
	"testing"

	"crew/runner/crewtest"
)

// TestMain has tests run in parallel, as most wait for the disk.
func TestMain(m *testing.M) { os.Exit(crewtest.Apart{M: m, Parallel: 16}.Run()) }
