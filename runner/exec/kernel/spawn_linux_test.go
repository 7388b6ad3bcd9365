//go:build (amd64 || arm64) && !crew_portable

package kernel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// withAndWithoutClone3 runs a test with clone3, and with ForkExec as if there were no clone3.
func withAndWithoutClone3(t *testing.T, test func(*testing.T, *Spawner)) {
	t.Run("clone3", func(t *testing.T) {
		s := NewSpawner()
		test(t, s)
		require.False(t, s.off.Load(), "this kernel has clone3")
	})
	t.Run("fork", func(t *testing.T) {
		s := NewSpawner()
		s.off.Store(true)
		test(t, s)
	})
}

// spawnOutput runs a program and returns what it writes to stdout and stderr, and
// its wait status.
func spawnOutput(t *testing.T, s *Spawner, attr syscall.ProcAttr, argv ...string) (string, syscall.WaitStatus) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	attr.Files = []uintptr{null.Fd(), w.Fd(), w.Fd()}
	attr.Sys = &syscall.SysProcAttr{Setpgid: true}
	pid, err := s.Start(argv[0], argv, &attr, nil, nil)
	w.Close()
	require.NoError(t, err)
	var out bytes.Buffer
	_, err = out.ReadFrom(r)
	require.NoError(t, err)
	var ws syscall.WaitStatus
	_, err = syscall.Wait4(pid, &ws, 0, nil)
	require.NoError(t, err)
	return out.String(), ws
}

func TestSpawnedProgramArguments(t *testing.T) {
	withAndWithoutClone3(t, func(t *testing.T, s *Spawner) {
		attr := syscall.ProcAttr{Dir: "/usr", Env: []string{"A=1 2", "B=", "PATH=/bin:/usr/bin"}}
		out, ws := spawnOutput(t, s, attr, "/bin/sh", "-c", `pwd; env | grep '^[AB]='; echo "$#:$1:$2" >&2; exit 7`, "sh", "", "x\ny")
		require.Equal(t, "/usr\nA=1 2\nB=\n2::x\ny\n", out)
		require.Equal(t, 7, ws.ExitStatus())
	})
}

// TestSpawnedProgramStartsClean checks that no signal is caught or blocked, and
// that the program has its own process group.
func TestSpawnedProgramStartsClean(t *testing.T) {
	withAndWithoutClone3(t, func(t *testing.T, s *Spawner) {
		out, _ := spawnOutput(t, s, syscall.ProcAttr{Env: os.Environ()}, "/bin/cat", "/proc/self/status", "/proc/self/stat")
		require.Regexp(t, `SigBlk:\t0{16}\n`, out)
		require.Regexp(t, `SigCgt:\t0{16}\n`, out)
		f := strings.Fields(out[strings.LastIndex(out, ") ")+2:])
		require.Regexp(t, `Pid:\t`+f[2]+`\n`, out, "the group has the id of its leader")
	})
}

func TestSpawnErrors(t *testing.T) {
	withAndWithoutClone3(t, func(t *testing.T, s *Spawner) {
		script := t.TempDir() + "/script"
		require.NoError(t, os.WriteFile(script, []byte("echo"), 0o755))
		rows, err := os.Open("testdata/errors.jsonl")
		require.NoError(t, err)
		defer rows.Close()
		for row := json.NewDecoder(rows); row.More(); {
			var c struct {
				Program, Dir string
				Large        bool   // an argument
				Error        string // its type, and what the system calls it
			}
			require.NoError(t, row.Decode(&c))
			program := strings.ReplaceAll(c.Program, "SCRIPT", script)
			argv := []string{program}
			if c.Large {
				argv = append(argv, strings.Repeat("x", 3<<20))
			}
			var born int32
			_, err := s.Start(program, argv, &syscall.ProcAttr{Dir: c.Dir, Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}}, &born, nil)
			require.Equal(t, c.Error, fmt.Sprintf("%T: %v", err, err))
			require.Zero(t, born, "its ID may be another's by now")
		}
		// Other tests may have children left for a moment.
		require.Eventually(t, func() bool {
			return errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil), unix.ECHILD)
		}, time.Minute, 5*time.Millisecond, "no failed child is left to reap")
	})
}

func TestNoProgramStartsAfterExpiry(t *testing.T) {
	s := NewSpawner()
	for _, end := range []time.Duration{SinceBoot() + time.Hour, 1, 0} {
		s.ExpireAt(end)
		pid, err := s.Start("/bin/true", []string{"true"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}}, nil, nil)
		if require.Equal(t, end == 1, err == ErrExpired, "%v", err); err == nil {
			Wait(pid, nil, nil)
		}
	}
}

// TestSpawnRestoresTheLimitOnFiles runs itself under low limits.
func TestSpawnRestoresTheLimitOnFiles(t *testing.T) {
	const variable = "CREW_TEST_LIMIT"
	if os.Getenv(variable) == "" {
		for _, limits := range []string{"ulimit -Sn 200", "ulimit -n 300", "ulimit -Hn 400; ulimit -Sn 399"} {
			cmd := exec.Command("/bin/sh", "-c", limits+`; export `+variable+`=$(ulimit -n); exec "$0" -test.run='^`+t.Name()+`$'`, os.Args[0])
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s: %s", limits, out)
			require.Contains(t, string(out), "PASS")
		}
		return
	}
	withAndWithoutClone3(t, func(t *testing.T, s *Spawner) {
		out, _ := spawnOutput(t, s, syscall.ProcAttr{}, "/bin/sh", "-c", "ulimit -n")
		require.Equal(t, os.Getenv(variable)+"\n", out)
	})
}

// pointsIntoItself checks that the system calls of a script point to nothing else.
func pointsIntoItself(t *testing.T, c *script) {
	t.Helper()
	start := func(p unsafe.Pointer) uintptr { return uintptr(p) }
	parts := [][2]uintptr{
		{start(unsafe.Pointer(c)), unsafe.Sizeof(*c)},
		{start(unsafe.Pointer(c.path)), 1},
		{start(unsafe.Pointer(c.dir)), 1},
		{start(unsafe.Pointer(&c.args[0])), 1},
		{start(unsafe.Pointer(&c.env[0])), 1},
	}
	for _, call := range c.calls {
		for _, arg := range call.Args {
			if arg <= math.MaxUint32 {
				continue // a number
			}
			require.True(t, slices.ContainsFunc(parts, func(p [2]uintptr) bool { return arg >= p[0] && arg < p[0]+p[1] }),
				"system call %d points elsewhere: %#x", call.Number, arg)
		}
	}
}

func TestScriptPointsIntoItself(t *testing.T) {
	s := NewSpawner()
	s.noFile = &[2]uint64{100, 200}
	c := s.newScript("/bin/true", []string{"true", "a"}, &syscall.ProcAttr{
		Dir: "/", Env: []string{"A=b"}, Files: []uintptr{3, 1, 2}, Sys: &syscall.SysProcAttr{Foreground: true, Ctty: 3},
	}, new(Pin), time.Hour)
	require.Len(t, c.calls, 13)
	pointsIntoItself(t, c)
}
