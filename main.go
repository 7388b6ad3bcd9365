// Command crew runs tasks in parallel: xargs -P, GNU parallel and make -j for
// people who want every task accounted for, on Linux and, in a portable form, on macOS
// and FreeBSD. See the pages in man/.
package main

import (
	"os"

	"crew/runner/exec/kernel"
	"crew/runner/front/wiring"
)

func main() {
	os.Exit(kernel.Run(func() int {
		return wiring.Main(os.Args, os.Stdin, os.Stdout, os.Stderr, nil)
	}))
}
