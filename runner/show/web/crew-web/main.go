// Command crew-web renders pages and traces of runs and shows runs in a browser. It is started by
// crew report, crew web, and runs with --report or --trace. It is a separate program so that crew
// itself links neither HTML templates nor an HTTP server.
package main

import (
	"os"

	"crew/runner/show/web"
)

func main() { os.Exit(web.Main(os.Args)) }
