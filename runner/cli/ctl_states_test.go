package cli

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// states are the states of a run, by their headings in the man page, and how a run
// gets there, of which task 1 waits for a retry, task 2 runs and task 3 waits.
var states = []struct {
	name string
	path []string // requests
	says string   // what the status says then
	why  string   // the beginning of a refusal
}{
	{"running", nil, "running, ", ""},
	{"paused", []string{"pause"}, "paused, ", ""},
	{"rest", []string{"drain --rest"}, "draining, ", "drains: it takes nothing more"},
	{"draining", []string{"drain"}, "draining, ", "drains: nothing more starts"},
	{"stopping", []string{"stop"}, "stopping, ", "stops: "},
	{"done", []string{"cancel 1", "cancel 3", "drain"}, "done, ", "is done: "},
}

// steerable is a crew serve in one of the states.
type steerable struct {
	t   *testing.T
	cmd *exec.Cmd
	dir string
}

// ctl runs crew ctl and returns its exit status and what it prints.
func (s *steerable) ctl(words ...string) (status int, text string) {
	if run := "--run"; words[0] != "ls" {
		if words[0] == "add" {
			run = "--to"
		}
		words = slices.Insert(words, 1, run, "r") // there may be other runs
	}
	cmd := crew(append([]string{"ctl"}, words...)...)
	cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+s.dir)
	cmd.Dir = s.dir
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		require.NoError(s.t, err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

func (s *steerable) until(says string, words ...string) {
	s.t.Helper()
	text := ""
	crewtest.Until(s.t, func() bool {
		_, text = s.ctl(words...)
		return strings.Contains(text, says)
	}, "%q: %s", says, crewtest.Seen(func() string { return text }))
}

// enter makes a run and brings it into a state.
func enter(t *testing.T, state int) *steerable {
	s := &steerable{t: t, dir: t.TempDir()}
	s.cmd = crew("serve", "-q", "-j1", "--name", "r", "--kill-after", "1h", "--retries", "1", "--retry-delay", "365d", "--retry-on", "exit:9",
		"sh", "-c", `trap "" TERM; [ $1 = a ] && exit 9; > on; until [ -e go ]; do sleep 0.05; done; head -c 300000 /dev/zero`, "sh", "{}")
	s.cmd.Env = append(s.cmd.Env, "XDG_RUNTIME_DIR="+s.dir)
	s.cmd.Dir = s.dir
	unread, err := s.cmd.StdoutPipe() // it holds less than a task writes
	require.NoError(t, err)
	var errs bytes.Buffer
	s.cmd.Stderr = &errs
	require.NoError(t, s.cmd.Start())
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		_, _ = unread.Read(make([]byte, 1))
		_ = s.cmd.Wait()
	})
	s.until("1\n2\n3\n", "add", "a", "b", "c")
	s.until("task 2 (b): ", "status")
	for _, request := range states[state].path {
		status, text := s.ctl(strings.Fields(request)...)
		require.Zero(t, status, text)
	}
	if states[state].name == "done" {
		require.NoError(t, os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600))
	}
	if states[state].path != nil {
		s.until(states[state].says, "status")
	}
	return s
}

// TestStatesOfTheManPage tries each request in each state.
func TestStatesOfTheManPage(t *testing.T) {
	t.Parallel()
	_, table, _ := strings.Cut(manText(t), ".Bl -column ")
	table, _, _ = strings.Cut(table, ".El")
	rows := regexp.MustCompile(`\s+Ta\s+`)
	requests := map[string]string{
		"resize": "resize 2", "cancel": "cancel 2", "retry": "retry 1", "add": "add d",
	}
	var heads []string
	refused := map[int][]string{} // by state
	for line := range strings.Lines(table) {
		row, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), ".It ")
		if !found {
			continue
		}
		cells := rows.Split(strings.TrimSpace(row), -1)
		if heads == nil {
			heads = cells
			continue
		}
		require.Len(t, cells, len(states)+1, line)
		request := cells[0]
		if requests[request] != "" {
			request = requests[request]
		}
		for i, cell := range cells[1:] {
			if cell != "yes" {
				refused[i] = append(refused[i], request)
				continue
			}
			t.Run(request+" "+states[i].name, func(t *testing.T) {
				t.Parallel()
				status, text := enter(t, i).ctl(strings.Fields(request)...)
				require.Zero(t, status, text)
			})
		}
	}
	for i, requests := range refused {
		t.Run("refused "+states[i].name, func(t *testing.T) {
			t.Parallel()
			s := enter(t, i) // what is refused changes nothing
			for _, request := range requests {
				status, text := s.ctl(strings.Fields(request)...)
				require.Equal(t, statusTrouble, status, text)
				require.Contains(t, text, " (r) "+states[i].why)
			}
		})
	}
	require.Len(t, heads, len(states))
	for i := range states {
		require.Equal(t, states[i].name, strings.TrimPrefix(heads[i], "Ta "))
	}
}
