// Package stories tests crew as people use it: each line of the README, and each use that
// the man page compares with another tool's.
package stories

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"crew/runner/crewtest"
	"crew/runner/kernel"
	"crew/runner/wiring"
)

func TestMain(m *testing.M) {
	testscript.Main(atTop{crewtest.Apart{M: m, Parallel: 6}}, map[string]func(){"crew": crew})
}

// crew does what the program does.
func crew() {
	os.Exit(kernel.Run(func() int {
		return wiring.Main(os.Args, os.Stdin, os.Stdout, os.Stderr, nil)
	}))
}

// atTop runs tests at the top of the module.
type atTop struct{ tests crewtest.Apart }

func (a atTop) Run() int {
	if err := os.Chdir("../.."); err != nil {
		panic(err)
	}
	return a.tests.Run()
}
