package kernel

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStartWithoutDescriptors runs itself under a low limit. Wherever Start runs out of descriptors, it
// must return a transient error.
func TestStartWithoutDescriptors(t *testing.T) {
	const variable = "CREW_TEST_DESCRIPTORS"
	if os.Getenv(variable) == "" {
		cmd := exec.Command("/bin/sh", "-c", `ulimit -n 32; exec "$0" -test.run='^`+t.Name()+`$'`, os.Args[0])
		cmd.Env = append(os.Environ(), variable+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "PASS")
		return
	}
	s := NewSpawner()
	var open []int
	for {
		fd, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
		if err == syscall.EMFILE {
			break
		}
		require.NoError(t, err)
		open = append(open, fd)
	}
	last := uintptr(open[len(open)-1]) // ForkExec asks for the numbers after it
	for ; len(open) > 1; open = open[1:] {
		pid, err := s.Start("/bin/true", []string{"true"}, &syscall.ProcAttr{
			Files: []uintptr{last, last, last}, Sys: &syscall.SysProcAttr{Setpgid: true},
		}, nil, nil)
		if err == nil {
			var ws syscall.WaitStatus
			_, err = syscall.Wait4(pid, &ws, 0, nil)
			require.NoError(t, err)
		} else {
			require.Equal(t, syscall.EMFILE, err)
		}
		require.NoError(t, syscall.Close(open[0]))
	}
}
