package wiring

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/journal"
)

// onDisk holds what a power cut leaves for certain of a queue: what its files held when
// they were last synced.
type onDisk struct{ journal, output, joblog string }

// TestPowerCut imitates a power cut after each sync of the journal of crew serve, while
// tasks are added and others end. No task may be lost, count as done without its output,
// or be noted as logged without its row.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	const tasks = 20
	dir := t.TempDir()
	cmd := crew("serve", "--name=powercut", "-j2", "--state=state", "--joblog=log", "echo out of {}; echo err of {} >&2")
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout = &out
	errs, err := cmd.StderrPipe()
	require.NoError(t, err)
	said := bufio.NewReader(errs)
	content := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(text)
	}
	var now onDisk
	var cuts []onDisk
	p := startJudged(t, cmd, func(c fileCall) verdict {
		switch c.String() {
		case "fsync /state/output.0":
			now.output = content("state/output.0")
		case "fsync /log":
			now.joblog = content("log")
		case "fsync /state/journal.jsonl":
			now.journal = content("state/journal.jsonl")
			cuts = append(cuts, now)
		}
		return goesOn
	})
	for line := ""; !strings.HasPrefix(line, "crew: serving as "); {
		line, err = said.ReadString('\n')
		require.NoError(t, err)
	}
	var adds [tasks]*exec.Cmd
	for i := range adds {
		adds[i] = crew("ctl", "add", "--to=powercut", "--wait", fmt.Sprintf("record-%d", i))
		require.NoError(t, adds[i].Start())
	}
	for _, add := range adds {
		require.NoError(t, add.Wait())
	}
	require.NoError(t, cmd.Process.Signal(unix.SIGINT))
	_, _ = io.Copy(io.Discard, said)
	p.wait(t)
	require.Equal(t, tasks, strings.Count(out.String(), "out of record-"))
	require.Greater(t, len(cuts), 1)
	for i, cut := range cuts {
		cut.check(t, i)
	}
}

// check begins with what a power cut has left.
func (d onDisk) check(t *testing.T, n int) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"journal.jsonl": d.journal, "output.0": d.output} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	accepted, ended, logged := 0, 0, 0
	for line := range strings.Lines(d.journal) {
		switch {
		case strings.HasPrefix(line, `{"event":"accepted"`):
			accepted++
		case strings.HasPrefix(line, `{"event":"ended"`):
			ended++
		case strings.HasPrefix(line, `{"event":"logged"`):
			logged += strings.Count(line[:strings.Index(line, "]")], `,"`) // from the first task on
		}
	}
	require.LessOrEqual(t, logged, max(0, strings.Count(d.joblog, "\n")-1), "cut %d: noted without a row", n)

	s, err := journal.Dump(dir, io.Discard)
	require.NotNil(t, s, err)
	j, err := journal.Open(journal.Config{
		Dir: dir, Command: s.Command, Queue: &journal.Queue{Keep: time.Hour}, Output: journal.Output{Logs: true}, Slack: 1 << 30,
		Past: journal.Past{Recall: true}, Notice: func(text string) { require.Contains(t, text, "runs again", "cut %d", n) },
	})
	require.NoError(t, err)
	defer j.Close()
	left := 0
	for tk, err := range j.Queue() {
		require.NoError(t, err)
		left++
		if tk.Done != nil && !tk.Done.Earlier {
			require.NotNil(t, tk.Done.Stdout, "cut %d: task %d is done without its output", n, tk.ID)
			_, err := tk.Done.Stdout.WriteTo(io.Discard)
			require.NoError(t, err)
		}
	}
	require.GreaterOrEqual(t, left, accepted-ended, "cut %d: a task is lost", n)
}
