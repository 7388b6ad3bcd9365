package proc

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

func TestMain(m *testing.M) { os.Exit(crewtest.Main{M: m, Parallel: 16}.Run()) }

// again returns a command that runs the test again, in a process group of its own and with an
// environment variable.
func again(t *testing.T, variable string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// alone runs the test again in a process of its own, in parallel with other tests. It returns true in
// that process.
func alone(t *testing.T) bool {
	t.Helper()
	const variable = "CREW_TEST_ALONE"
	if os.Getenv(variable) != "" {
		return true
	}
	t.Parallel()
	out, err := again(t, variable).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return false
}
