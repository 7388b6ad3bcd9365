package engine

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"crew/runner/crewtest"
	"crew/runner/front/wiring"
)

// TestMain makes this binary act as crew-engine when crew starts it as that.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--protocol" {
		os.Exit(engineMain())
	}
	if words := strings.Fields(os.Getenv(asNode)); len(words) > 0 {
		fmt.Fprintln(os.Stderr, serveNode(words))
		os.Exit(1)
	}
	os.Exit(crewtest.Main{M: m, Parallel: 16}.Run())
}

func engineMain() int {
	args, err := wiring.EngineArgs(os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "crew:", err)
		return 1
	}
	if len(args) == 4 && args[1] == wiring.RelayVerb {
		return Relay(args[2], args[3], os.Stdin)
	}
	if len(args) == 4 && args[1] == wiring.SubmitVerb {
		return Submitted(args[2], args[3])
	}
	return wiring.Main(args, os.Stdin, os.Stdout, os.Stderr, Far())
}
