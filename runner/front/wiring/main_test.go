package wiring

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"crew/runner/crewtest"
)

// TestMain lets the test binary stand in for crew.
func TestMain(m *testing.M) {
	syscall.Umask(0o022) // directories for --state must be nobody else's to write
	if os.Getenv("CREW_TEST_MAIN") != "" {
		_ = os.Unsetenv("CREW_TEST_MAIN")
		os.Exit(Main(os.Args, os.Stdin, os.Stdout, os.Stderr, nil))
	}
	os.Exit(crewtest.Main{M: m, Parallel: 8}.Run())
}

// crew is a crew to be run, in a process of its own.
func crew(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	// Without HOME, records of failed tasks go to TMPDIR.
	cmd.Env = append(os.Environ(), "CREW_TEST_MAIN=1", "HOME=", "XDG_STATE_HOME=")
	return cmd
}
