// Command crew runs tasks in parallel: xargs -P, GNU parallel and make -j for
// people who want every task accounted for. It needs Linux. See man/crew.1.
package main

import (
	"os"

	"crew/runner/cli"
)

func main() {
	os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
