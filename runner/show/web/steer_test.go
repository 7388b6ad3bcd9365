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

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/steer/control"
)

// waiting is a command that prints its argument in words that the command line does not have, and exits
// once a file of that name has its exit status.
const waiting = `echo o""ut {}; until [ -s {} ]; do sleep 0.02; done; echo end {}; exit $(cat {})`

// release lets a task of waiting exit.
func release(t *testing.T, p *crewtest.Process, name string, status int) {
	t.Helper()
	path := filepath.Join(p.Cmd.Dir, name)
	crewtest.WriteFile(t, path+".new", fmt.Sprint(status), 0o666)
	require.NoError(t, os.Rename(path+".new", path))
}

// TestSteering checks that a page sees and controls a run.
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

	_, page := s.get(fmt.Sprintf("run/%d/", pid))
	require.Contains(t, page, "out b", "it failed")
	require.NotContains(t, page, "out a")
	_, parts := s.get(path + "parts")
	require.Contains(t, parts, "out b", "an open page gets the output, too")
	require.NotContains(t, parts, "<html")
	crewtest.Until(t, func() bool { // a status may be ahead of the events, or behind them
		_, text := s.get("metrics")
		of := strings.NewReplacer("#", fmt.Sprintf(`{run="steered",pid="%d"`, pid)).Replace
		return strings.Contains(text, of("crew_up#} 1\n")) && strings.Contains(text, of(`crew_tasks_total#,outcome="exit"} 1`+"\n")) &&
			strings.Contains(text, of("crew_workers#} 2\n")) && strings.Contains(text, of("crew_attempt_duration_seconds_count#} 2\n"))
	}, "the metrics")

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
	require.Equal(t, `"ended"`, b.until(func(e sse) bool { return e.name == "over" }).data)
	require.Empty(t, b.next().name)
	p.Wait()
	status, reply = s.do(path, `{"op":"pause"}`)
	require.Equal(t, http.StatusGone, status)
	require.NotEmpty(t, reply.Error)
	require.Contains(t, s.open(pid), path[:strings.LastIndex(path, "-")], "it is still shown")
	_, list = s.get("")
	require.Regexp(t, fmt.Sprintf(`(?s)run/%d/.*>ended<`, pid), list)
}

// TestServersComeAndRunsGo checks that a run survives the end of a server, that a new server knows what
// the run remembers and counts the rest as missed, and that a run that is killed is shown as over.
func TestServersComeAndRunsGo(t *testing.T) {
	t.Parallel()
	first := startSite(t, Config{})
	args := []string{"-j1", `echo {}; until [ {} -le 120 ] || [ -s {} ]; do sleep 0.02; done`, ":::"}
	for i := range 122 {
		args = append(args, strconv.Itoa(i+1))
	}
	p := startCrew(t, args...)
	b := listen(t, first.url+first.open(p.Cmd.Process.Pid)+"events", "")
	b.status(func(s *control.Status) bool { return s.Done == 120 && s.Progress.Running == 1 })
	require.NoError(t, first.stop())

	s, page, run := startSite(t, Config{}), "", fmt.Sprintf("run/%d/", p.Cmd.Process.Pid)
	crewtest.Until(t, func() bool {
		_, page = s.get(run)
		return strings.Contains(page, "70 events were missed")
	}, "what was missed")
	seen := map[string]int{}
	b = listen(t, s.url+run+strings.Split(placeForm.FindString(page), "-")[0]+"-0/events", "")
	see := func(until string) {
		b.until(func(e sse) bool {
			for _, l := range e.lines(t) {
				seen[fmt.Sprint(l.Name, " ", l.Task)]++
			}
			return seen[until] > 0
		})
	}
	see("started 121")
	release(t, p, "121", 0)
	see("started 122")
	for id := 71; id <= 121; id++ {
		require.Equal(t, 1, seen[fmt.Sprint("finished ", id)], "task %d", id)
	}
	p.Send(syscall.SIGKILL)
	p.Wait()
	b.until(func(e sse) bool { return e.name == "over" && e.data == `"killed"` })
}
