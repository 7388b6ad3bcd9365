package history

import (
	"os"
	"testing"

	"crew/runner/crewtest"
)

func TestMain(m *testing.M) { os.Exit(crewtest.Main{M: m}.Run()) }
