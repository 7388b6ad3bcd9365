package proc

import (
	"os"
	"testing"

	"crew/runner/crewtest"
)

func TestMain(m *testing.M) { os.Exit(crewtest.Apart{M: m, Parallel: 16}.Run()) }
