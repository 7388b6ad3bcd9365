// Command crew-web makes pages and traces of runs, and shows runs in a browser: crew
// report, crew web, and runs with --report or --trace start it. It is a program of its own
// so that crew itself does without what HTML and HTTP take.
package main

import (
	"os"

	"crew/runner/show/web"
)

func main() { os.Exit(web.Main(os.Args)) }
