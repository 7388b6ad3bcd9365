package web

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/control"
	"crew/runner/crewtest"
	"crew/runner/task"
)

// waiting is a command that says its argument, and ends once a file of that name holds its
// exit status.
const waiting = `echo out {}; until [ -s {} ]; do sleep 0.02; done; echo end {}; exit $(cat {})`

// release lets a task of waiting exit.
func release(t *testing.T, p *crewtest.Process, name string, status int) {
	t.Helper()
	path := filepath.Join(p.Cmd.Dir, name)
	crewtest.WriteFile(t, path+".new", fmt.Sprint(status), 0o666)
	require.NoError(t, os.Rename(path+".new", path))
}

// TestSteering: a page sees what a run does and has it do things.
func TestSteering(t *testing.T) {
	t.Parallel()
	s := startSite(t, Config{})
	p := startCrew(t, "-j1", "--name", "steered", "--state", "st", waiting, ":::", "a", "b", "c", "d", "e")
	pid := p.Cmd.Process.Pid
	path := s.open(pid)
	_, list := s.get("")
	require.Contains(t, list, fmt.Sprintf("run/%d/", pid))
	b := listen(t, s.url+path+"events", "")
	do := func(request string) control.Reply {
		t.Helper()
		status, reply := s.do(path, request)
		require.Equal(t, http.StatusOK, status, "%s: %s", request, reply.Error)
		return reply
	}
	runs := func(n int64) func(*control.Status) bool {
		return func(s *control.Status) bool { return s.Progress.Running == n }
	}

	b.status(runs(1))
	do(`{"op":"pause"}`)
	release(t, p, "a", 0)
	require.Equal(t, task.OK, b.finished(1).Outcome)
	b.status(func(s *control.Status) bool { return s.State == "paused" && s.Progress.Running == 0 })
	do(`{"op":"resume"}`)
	b.status(runs(1))
	do(`{"op":"resize","n":2}`)
	b.status(func(s *control.Status) bool { return len(s.Slots) == 2 && s.Progress.Running == 2 })

	resp, err := http.Get(s.url + path + "log?task=2")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, "text/plain; charset=utf-8", resp.Header.Get("Content-Type"))
	log := bufio.NewScanner(resp.Body)
	require.True(t, log.Scan())
	require.Equal(t, "out b", log.Text())
	release(t, p, "b", 3)
	require.True(t, log.Scan())
	require.Equal(t, "end b", log.Text())
	require.False(t, log.Scan())
	require.Equal(t, 3, *b.finished(2).Exit)

	do(`{"op":"cancel","tasks":[3]}`)
	require.Equal(t, task.Cancelled, b.finished(3).Outcome)
	reply := do(`{"op":"retry","tasks":[2]}`)
	require.Equal(t, []uint64{6}, reply.Tasks)
	status, text := s.get(path + "log?task=99")
	require.Equal(t, http.StatusNotFound, status)
	require.Equal(t, 1, strings.Count(text, "\n"), text)
	status, reply = s.do(path, `{"op":"cancel","tasks":[99]}`)
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, string(reply.Error), "99")

	do(`{"op":"stop"}`)
	b.status(func(s *control.Status) bool { return s.State == "done" })
	require.Equal(t, sse{name: "over", data: `"ended"`}, b.next())
	require.Empty(t, b.next().name)
	p.Wait()
	status, reply = s.do(path, `{"op":"pause"}`)
	require.Equal(t, http.StatusGone, status)
	require.NotEmpty(t, reply.Error)
	require.Contains(t, s.open(pid), path[:strings.LastIndex(path, "-")], "it is still shown")
}

// TestServerEnds: the end of the server is no concern of the runs.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	s := startSite(t, Config{})
	p := startCrew(t, waiting, ":::", "a")
	path := s.open(p.Cmd.Process.Pid)
	b := listen(t, s.url+path+"events", "")
	b.status(func(s *control.Status) bool { return s.Progress.Running == 1 })
	resp, err := http.Get(s.url + path + "log?task=1")
	require.NoError(t, err)
	defer resp.Body.Close()
	require.NoError(t, s.stop())
	release(t, p, "a", 0)
	p.Exits(0)
	require.Equal(t, "out a\nend a\n", p.Stdout())
}

// TestLateServer: what was before is known as far as the run remembers it.
func TestLateServer(t *testing.T) {
	t.Parallel()
	p := startCrew(t, "-j2", waiting, ":::", "a", "b", "c", "d")
	release(t, p, "a", 0)
	release(t, p, "b", 4)
	crewtest.Until(t, func() bool { return strings.Contains(p.Stdout(), "end b") && strings.Contains(p.Stdout(), "end a") }, "the first tasks")
	s := startSite(t, Config{})
	path := s.open(p.Cmd.Process.Pid)
	b := listen(t, s.url+path[:strings.LastIndex(path, "-")]+"-0/events", "")
	seen := map[string]int{}
	b.until(func(e sse) bool {
		for _, l := range e.lines(t) {
			seen[fmt.Sprint(l.Name, " ", l.Task)]++
		}
		return seen["started 3"]+seen["started 4"] == 2
	})
	release(t, p, "c", 0)
	release(t, p, "d", 0)
	b.until(func(e sse) bool {
		for _, l := range e.lines(t) {
			seen[fmt.Sprint(l.Name, " ", l.Task)]++
		}
		return e.name == "over"
	})
	for _, line := range []string{"finished 1", "finished 2", "started 3", "started 4", "finished 3", "finished 4"} {
		require.Equal(t, 1, seen[line], line)
	}
}

// TestMissedTasks: what the run does not remember is missed, which the page says.
func TestMissedTasks(t *testing.T) {
	t.Parallel()
	args := []string{"-j1", "until [ {} != last ] || [ -e go ]; do sleep 0.05; done; echo {}", ":::"}
	for i := range 120 {
		args = append(args, strconv.Itoa(i))
	}
	p := startCrew(t, append(args, "last")...)
	crewtest.Until(t, func() bool { return strings.Contains(p.Stdout(), "119\n") }, "all but the last")
	s := startSite(t, Config{})
	crewtest.Until(t, func() bool {
		_, page := s.get(fmt.Sprintf("run/%d/", p.Cmd.Process.Pid))
		return strings.Contains(page, " 70 events were missed") || strings.Contains(page, ">70 events were missed")
	}, "what was missed")
	p.Send(syscall.SIGTERM)
	p.Wait()
}

// TestKilledRun: a run that is killed is over, and says so.
func TestKilledRun(t *testing.T) {
	t.Parallel()
	s := startSite(t, Config{})
	p := startCrew(t, waiting, ":::", "a")
	b := listen(t, s.url+s.open(p.Cmd.Process.Pid)+"events", "")
	b.status(func(s *control.Status) bool { return s.Progress.Running == 1 })
	p.Send(syscall.SIGKILL)
	p.Wait()
	b.until(func(e sse) bool { return e.name == "over" && e.data == `"killed"` })
}

// TestFailuresHaveOutput: a page shows what tasks wrote that have failed, also when the run
// does not remember that any more.
func TestFailuresHaveOutput(t *testing.T) {
	t.Parallel()
	s := startSite(t, Config{})
	p := startCrew(t, "-j2", `echo "sec""ret{}"; until [ -s {} ]; do sleep 0.02; done; exit $(cat {})`, ":::", "a", "b")
	pid := p.Cmd.Process.Pid
	b := listen(t, s.url+s.open(pid)+"events", "")
	release(t, p, "a", 3)
	b.finished(1)
	page := func() string {
		_, page := s.get(fmt.Sprintf("run/%d/", pid))
		return page
	}
	require.Contains(t, page(), "secreta")
	release(t, p, "b", 0)
	b.until(func(e sse) bool { return e.name == "over" })
	require.Contains(t, page(), "secreta")
	require.NotContains(t, page(), "secretb")
	_, list := s.get("")
	require.Regexp(t, fmt.Sprintf(`(?s)run/%d/.*>ended<.*>2 <small>of 2`, pid), list)
}
