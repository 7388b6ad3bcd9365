package kernel

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func kill(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, syscall.Kill(os.Getpid(), sig))
}

func next(t *testing.T, from <-chan syscall.Signal) syscall.Signal {
	t.Helper()
	select {
	case sig := <-from:
		return sig
	case <-time.After(time.Minute):
		t.Fatal("no signal arrived")
		return 0
	}
}

func TestSignalsGoToTheirChannels(t *testing.T) {
	one, two := make(chan syscall.Signal, 8), make(chan syscall.Signal, 8)
	require.NoError(t, Notify(one, syscall.SIGUSR1, syscall.SIGINT))
	require.NoError(t, Notify(two, syscall.SIGUSR2))
	for range 100 {
		kill(t, syscall.SIGUSR1)
		require.Equal(t, syscall.SIGUSR1, next(t, one))
		kill(t, syscall.SIGUSR2)
		require.Equal(t, syscall.SIGUSR2, next(t, two))
		kill(t, syscall.SIGINT)
		require.Equal(t, syscall.SIGINT, next(t, one))
	}
	require.NoError(t, Notify(two, syscall.SIGUSR1))
	kill(t, syscall.SIGUSR1)
	require.Equal(t, syscall.SIGUSR1, next(t, two))
	require.Empty(t, one)
}

func TestFullChannelDropsSignals(t *testing.T) {
	full, other := make(chan syscall.Signal), make(chan syscall.Signal, 1)
	require.NoError(t, Notify(full, syscall.SIGUSR1))
	require.NoError(t, Notify(other, syscall.SIGUSR2))
	for range 100 {
		kill(t, syscall.SIGUSR1)
	}
	kill(t, syscall.SIGUSR2)
	require.Equal(t, syscall.SIGUSR2, next(t, other))
}

// The handler may run at any instruction, on any thread, and must not disturb it.
func TestSignalsDisturbNoGoroutine(t *testing.T) {
	received := make(chan syscall.Signal, 1)
	require.NoError(t, Notify(received, syscall.SIGUSR1))
	stop := make(chan struct{})
	sums := make(chan int)
	for range 4 {
		go func() {
			for {
				sum := 0
				for i := range 1000 {
					sum += len(strings.Repeat("x", i))
				}
				select {
				case sums <- sum:
				case <-stop:
					return
				}
			}
		}()
	}
	for range 500 {
		kill(t, syscall.SIGUSR1)
		require.Equal(t, 999*1000/2, <-sums)
	}
	close(stop)
	next(t, received)
}

func TestWriteToClosedPipe(t *testing.T) {
	if os.Getenv("CATCH_TEST_PIPE") == "" {
		// On stdout the runtime treats a closed pipe in its own way.
		r, w, err := os.Pipe()
		require.NoError(t, err)
		cmd := exec.Command(os.Args[0], "-test.run", t.Name())
		cmd.Env = append(os.Environ(), "CATCH_TEST_PIPE=1")
		var stderr strings.Builder
		cmd.Stdout, cmd.Stderr = w, &stderr
		require.NoError(t, r.Close())
		require.NoError(t, cmd.Start())
		require.NoError(t, w.Close())
		_ = cmd.Wait()
		_, ignored, ok := strings.Cut(stderr.String(), "broken pipe; a child ignores ")
		require.True(t, ok, stderr.String())
		mask, err := strconv.ParseUint(ignored, 16, 64)
		require.NoError(t, err)
		require.Zero(t, mask&(1<<(syscall.SIGPIPE-1)))
		return
	}
	SurvivePipes()
	_, err := os.Stdout.WriteString("x")
	status, _ := exec.Command("grep", "SigIgn", "/proc/self/status").Output()
	_, ignored, _ := strings.Cut(strings.TrimSpace(string(status)), "\t")
	os.Stderr.WriteString(err.Error() + "; a child ignores " + ignored)
}

func TestSIGCONTLeavesRoom(t *testing.T) {
	to := make(chan syscall.Signal, 4)
	for range 100 {
		send(to, syscall.SIGCONT)
	}
	send(to, syscall.SIGTERM)
	for range len(to) - 1 {
		require.Equal(t, syscall.SIGCONT, <-to)
	}
	require.Equal(t, syscall.SIGTERM, <-to)
}
