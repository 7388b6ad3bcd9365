package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"crew/runner/cli"
)

// TestMain makes this binary stand in for crew in the scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"crew": func() { os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) },
	})
}

// TestScript runs testdata/script/*.txtar: what a user sees, a behaviour a file.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("CREW_UPDATE_SCRIPTS") != "",
	})
}
