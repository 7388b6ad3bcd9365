// Package stories tests crew as people use it: each command line of the README, and each one that the
// man page compares with another tool.
package stories

import (
	"os"
	"testing"

	"crew/runner/crewtest"
)

// TestMain runs the tests in the top directory of the module.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	os.Exit(crewtest.Main{M: m, Parallel: 6}.Run())
}
