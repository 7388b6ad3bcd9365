package web

import (
	"bufio"
	"encoding/json"
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
	"crew/runner/steer/control"
)

// waiting is a command that prints its argument in words that the command line does not have, and exits
// once a file of that name has its exit status. If the file is already there, it also writes to stderr.
const waiting = `[ ! -s {} ] || echo wr""ong {} >&2; echo o""ut {}; until [ -s {} ]; do sleep 0.02; done; echo end {}; exit $(cat {})`

// release lets a task of waiting exit.
func release(t *testing.T, p *crewtest.Process, name string, status int) {
	t.Helper()
	path := filepath.Join(p.Cmd.Dir, name)
	crewtest.WriteFile(t, path+".new", fmt.Sprint(status), 0o666)
	require.NoError(t, os.Rename(path+".new", path))
}

// TestSteering plays testdata/steering.txt, in which PID is the ID of the run and PATH leads to its events. A
// step is one of these, where REGEX matches a status and what comes with it:
//
//	sees STATE RUNNING SLOTS WAITING
//	                          the page gets such a status, of which it is the beginning
//	do REQUEST => REGEX       send a request
//	get PATH => REGEX         get a page
//	lacks TEXT                the last of these answers lacks this
//	release NAME STATUS       let a task exit
//	finished ID => TEXT       the page gets the end of a task, with this
//	log ID                    read the output of a task
//	reads LINE                the next line of that; none at its end
//	exposes METRIC VALUE      a metric of the run gets this value
func TestSteering(t *testing.T) {
	t.Parallel()
	p := startCrew(t, "-j1", "--name", "steered", "--state", "st", waiting, ":::", "a", "b", "c", "d", "e")
	pid := p.Cmd.Process.Pid
	s := startSite(t, Config{})
	path := s.open(pid)
	b := listen(t, s.url+path+"events", "")
	fill := strings.NewReplacer("PID", strconv.Itoa(pid), "PATH", "/"+path).Replace
	var text string
	var log *bufio.Scanner
	steps := strings.Split(strings.TrimSpace(crewtest.ReadFile(t, "testdata/steering.txt")), "\n")
	for _, step := range steps[1:] {
		op, rest, _ := strings.Cut(step, " ")
		what, want, _ := strings.Cut(fill(rest), " => ")
		words := append(strings.Fields(what), "")
		id, _ := strconv.ParseUint(words[0], 10, 64)
		switch op {
		case "#":
		case "sees":
			b.status(func(s *control.Status) bool {
				return strings.HasPrefix(fmt.Sprintln(s.State, s.Progress.Running, len(s.Slots), s.Progress.Waiting), what)
			})
		case "do":
			status, reply := s.do(path, what)
			text = fmt.Sprint(status, " ", reply.Tasks, " ", reply.Error, " ", string(encoded(reply.Wheres)))
			require.Regexp(t, want, text, step)
		case "get":
			var status int
			status, text = s.get(what[1:])
			require.Regexp(t, want, fmt.Sprint(status, " ", text), step)
		case "lacks":
			require.NotContains(t, text, what)
		case "release":
			status, err := strconv.Atoi(words[1])
			require.NoError(t, err)
			release(t, p, words[0], status)
		case "finished":
			end, _ := json.Marshal(b.finished(id))
			require.Contains(t, string(end), want, step)
		case "log":
			resp, err := http.Get(s.url + path + "log?task=" + what)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, "text/plain; charset=utf-8", resp.Header.Get("Content-Type"))
			log = bufio.NewScanner(resp.Body)
		case "reads":
			require.Equal(t, what != "", log.Scan())
			require.Equal(t, what, log.Text())
		case "exposes":
			line := strings.Replace(words[0], "#", fmt.Sprintf(`{run="steered",pid="%d"`, pid), 1) + "} " + words[1] + "\n"
			crewtest.Until(t, func() bool { // a status may be ahead of the events, or behind them
				_, text := s.get("metrics")
				return strings.Contains(text, line)
			}, "%s", line)
		default:
			require.Fail(t, "no such step", step)
		}
	}
	require.Equal(t, `"ended"`, b.until(func(e sse) bool { return e.name == "over" }).data)
	require.Empty(t, b.next().name)
	p.Wait()
	status, reply := s.do(path, `{"op":"pause"}`)
	require.Equal(t, http.StatusConflict, status)
	require.NotEmpty(t, reply.Error)
	require.Contains(t, s.open(pid), path[:strings.LastIndex(path, "-")], "it is still shown")
	_, list := s.get("")
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
