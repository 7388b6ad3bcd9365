// Package stories tests crew as people use it: each line of the README, and each use that
// the man page compares with another tool's.
package stories

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"crew/runner/linux"
	"crew/runner/proc"
	"crew/runner/wiring"
)

func TestMain(m *testing.M) {
	// Most tests wait most of the time.
	_ = flag.Set("test.parallel", strconv.Itoa(max(6, runtime.GOMAXPROCS(0))))
	testscript.Main(apart{m}, map[string]func(){"crew": crew})
}

// crew does what the program does.
func crew() {
	os.Exit(linux.Run(func() int {
		return wiring.Main(os.Args, os.Stdin, os.Stdout, os.Stderr, wiring.Programs{
			Local: func(cfg proc.Config) (wiring.Executor, error) { return proc.New(cfg) },
		})
	}))
}

// apart runs tests at the top of the module, with a directory for the sockets of runs.
type apart struct{ tests *testing.M }

func (a apart) Run() int {
	dir, err := os.MkdirTemp("", "crew-test")
	if err == nil {
		err = os.Chdir("../..")
	}
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	_ = os.Setenv("XDG_RUNTIME_DIR", dir)
	return a.tests.Run()
}

// soaking reports whether the long forms of tests are to run.
func soaking() bool { return os.Getenv("CREW_SOAK") != "" }
