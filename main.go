// Command crew runs tasks in parallel: xargs -P, GNU parallel and make -j for
// people who want every task accounted for. It needs Linux. See man/crew.1.
package main

import (
	"os"

	"crew/runner/cli"
	"crew/runner/linux"
	"crew/runner/proc"
)

func main() {
	os.Exit(linux.Run(func() int {
		return cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr, cli.Programs{Local: processes})
	}))
}

// processes runs tasks as processes of this machine.
func processes(cfg proc.Config) (cli.Executor, error) { return proc.New(cfg) }
