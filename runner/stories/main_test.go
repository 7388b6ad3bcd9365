// Package stories tests crew as people use it: each line of the README, and each use that
// the man page compares with another tool's.
package stories

import (
	"os"
	"testing"

	"crew/runner/crewtest"
)

// TestMain runs the tests at the top of the module.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(crewtest.Main{M: m, Parallel: 6}.Run())
}
