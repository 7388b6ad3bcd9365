// Command crew-engine is the part of crew that works with other machines: crew starts it for crew
// worker, crew engine, and for runs with --engine or --ssh. It is a separate program so that the start
// of crew does not pay for the NATS library.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"crew/runner/exec/kernel"
	"crew/runner/far/engine"
	"crew/runner/front/wiring"
)

func main() {
	args, err := wiring.EngineArgs(os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "crew:", err)
		os.Exit(1)
	}
	if len(args) == 4 && args[1] == wiring.RelayVerb {
		os.Exit(engine.Relay(args[2], args[3], os.Stdin))
	}
	if len(args) == 4 && args[1] == wiring.SubmitVerb {
		os.Exit(kernel.Run(func() int { return engine.Submitted(args[2], args[3]) }))
	}
	debug.SetGCPercent(200) // little is live, and collections would take a tenth of the time
	os.Exit(kernel.Run(func() int {
		return wiring.Main(args, os.Stdin, os.Stdout, os.Stderr, engine.Far())
	}))
}
