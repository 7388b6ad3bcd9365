// Command crew-engine is the part of crew that works with other machines: it runs
// crew worker, crew engine, and crew with --engine or --ssh. It is a program of its
// own so that crew's start-up does not pay for the library of NATS. crew starts it.
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
		fmt.Fprintln(os.Stderr, "crew-engine:", err)
		os.Exit(2)
	}
	if len(args) == 4 && args[1] == wiring.RelayVerb {
		os.Exit(engine.Relay(args[2], args[3], os.Stdin))
	}
	if len(args) == 3 && args[1] == wiring.SubmitVerb {
		os.Exit(kernel.Run(func() int { return engine.Submitted(args[2]) }))
	}
	debug.SetGCPercent(200) // what lives is little: collections take a tenth of the time otherwise
	os.Exit(kernel.Run(func() int {
		return wiring.Main(args, os.Stdin, os.Stdout, os.Stderr, engine.Far())
	}))
}
