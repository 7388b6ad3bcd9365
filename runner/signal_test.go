package runner

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

func TestSignalsAreCommands(t *testing.T) {
	for _, c := range []struct {
		sent []syscall.Signal
		last task.Command
	}{
		{[]syscall.Signal{syscall.SIGINT}, task.Command{Op: task.Drain, Signal: 2}},
		{[]syscall.Signal{syscall.SIGINT, syscall.SIGINT}, task.Command{Op: task.Stop, Signal: 2}},
		{[]syscall.Signal{syscall.SIGINT, syscall.SIGINT, syscall.SIGINT, syscall.SIGINT}, task.Command{Op: task.Kill, Signal: 2}},
		{[]syscall.Signal{syscall.SIGHUP, syscall.SIGHUP}, task.Command{Op: task.Drain, Signal: 1}},
		{[]syscall.Signal{syscall.SIGHUP, syscall.SIGINT}, task.Command{Op: task.Stop, Signal: 2}},
		{[]syscall.Signal{syscall.SIGTERM}, task.Command{Op: task.Stop, Signal: 15}},
		{[]syscall.Signal{syscall.SIGTERM, syscall.SIGHUP}, task.Command{Op: task.Stop, Signal: 1}},
		{[]syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}, task.Command{Op: task.Kill, Signal: 15}},
		{[]syscall.Signal{syscall.SIGQUIT}, task.Command{Op: task.Look}},
		{[]syscall.Signal{syscall.SIGQUIT, syscall.SIGINT}, task.Command{Op: task.Drain, Signal: 2}},
		{[]syscall.Signal{syscall.SIGQUIT, syscall.SIGQUIT}, task.Command{Op: task.Kill, Signal: 3}},
		{[]syscall.Signal{syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR1, syscall.SIGQUIT}, task.Command{Op: task.Look}},
		{[]syscall.Signal{syscall.SIGINT, syscall.SIGUSR1}, task.Command{Op: task.Grow, N: 1}},
		{[]syscall.Signal{syscall.SIGUSR2}, task.Command{Op: task.Grow, N: -1}},
	} {
		var l ladder
		var last task.Command
		for i, s := range c.sent { // a second apart
			last = l.command(s, time.Unix(int64(i), 0))
		}
		require.Equal(t, c.last, last, "%v", c.sent)
	}
	gentle := ladder{gentle: true}
	for _, want := range []task.Op{task.Drain, task.Stop, task.Kill} {
		require.Equal(t, task.Command{Op: want, Signal: 15}, gentle.command(syscall.SIGTERM, time.Unix(0, 0)))
	}
}
