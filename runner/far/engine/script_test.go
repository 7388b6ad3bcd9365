package engine

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/exec/kernel"
	"crew/runner/front/wiring"
)

// TestScript runs testdata/script/*.txtar: what users see of a run on several machines, a behaviour a
// file. ENGINE is the URL of a server for this script alone, where every user has all rights. In
// addition to crew, scripts have the programs in testdata/bin, each of which describes itself.
func TestScript(t *testing.T) {
	t.Parallel()
	scripts(t, "testdata/script", os.Getenv("PATH"), "")
}

// TestSSH runs testdata/ssh/*.txtar: what users see of hosts that are reached by ssh. All hosts have
// the same home directory, REMOTE.
func TestSSH(t *testing.T) {
	t.Parallel()
	s := crewtest.StartSSHD(t)
	install(t, s.Home)
	scripts(t, "testdata/ssh", s.Path, s.Home)
}

// install installs crew-engine on a host. The tests of package ssh cover the copying.
func install(t *testing.T, home string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	dir := filepath.Join(home, ".cache/crew", fmt.Sprintf("%x", sha256.Sum256([]byte(crewtest.ReadFile(t, self)))))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.Symlink(self, filepath.Join(dir, "crew-engine")))
}

func scripts(t *testing.T, dir, path, remote string) {
	t.Helper()
	bin, err := filepath.Abs("testdata/bin")
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	programs := t.TempDir()
	crew := fmt.Sprintf("#!/bin/sh\nexec '%s' --protocol %d \"$@\"\n", self, wiring.EngineProtocol)
	crewtest.WriteFile(t, filepath.Join(programs, "crew"), crew, 0o755)
	require.NoError(t, os.Symlink(self, filepath.Join(programs, "crew-engine")))
	testscript.Run(t, testscript.Params{
		Dir: dir, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			s, err := openTestHub(filepath.Join(env.WorkDir, ".hub"))
			if err != nil {
				return err
			}
			var late *time.Timer
			late = time.AfterFunc(crewtest.Patience, func() {
				killAll(env.WorkDir)
				late.Reset(time.Second) // further processes may have been started meanwhile
			})
			env.Defer(func() {
				late.Stop()
				killAll(env.WorkDir)
				s.Shutdown()
				s.WaitForShutdown()
			})
			run := filepath.Join(env.WorkDir, ".run")
			for name, value := range map[string]string{
				"ENGINE": s.ClientURL(), "PORT": steadyPort(), "REMOTE": remote, "PATH": programs + ":" + bin + ":" + path, "XDG_RUNTIME_DIR": run,
			} {
				env.Setenv(name, value)
			}
			return os.Mkdir(run, 0o700)
		},
		Condition: func(cond string) (bool, error) { return cond == "soak" && crewtest.Soaking(), nil },
	})
}

// killAll kills all processes that have dir in their environment.
func killAll(dir string) {
	for _, p := range kernel.Processes() {
		if bytes.Contains(kernel.Environ(p.PID), []byte(dir)) {
			_ = syscall.Kill(p.PID, syscall.SIGKILL)
		}
	}
}
