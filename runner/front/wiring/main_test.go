package wiring

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"crew/runner/crewtest"
)

// TestMain makes the test binary act as crew if the environment says so.
func TestMain(m *testing.M) {
	syscall.Umask(0o022) // other users must not have write permission for --state directories
	if os.Getenv("CREW_TEST_MAIN") != "" {
		_ = os.Unsetenv("CREW_TEST_MAIN")
		os.Exit(Main(os.Args, os.Stdin, os.Stdout, os.Stderr, nil))
	}
	os.Exit(crewtest.Main{M: m, Parallel: 8}.Run())
}

// crew returns a command that runs crew.
func crew(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	// Without HOME, records of failed tasks go to TMPDIR.
	cmd.Env = append(os.Environ(), "CREW_TEST_MAIN=1", "HOME=", "XDG_STATE_HOME=")
	return cmd
}
