package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/front/wiring"
	"crew/runner/steer/control"
)

// TestMain lets the test binary stand in for crew.
func TestMain(m *testing.M) {
	if os.Getenv("CREW_TEST_MAIN") != "" {
		_ = os.Unsetenv("CREW_TEST_MAIN")
		os.Exit(wiring.Main(os.Args, os.Stdin, os.Stdout, os.Stderr, nil))
	}
	if os.Getenv("CREW_TEST_WEB") != "" {
		os.Exit(Main(os.Args))
	}
	os.Exit(crewtest.Main{M: m, Parallel: 4}.Run())
}

// TestNohup checks that crew web survives a signal that nohup ignores.
func TestNohup(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", `trap "" HUP; exec "$0" --protocol 1 web 127.0.0.1:0 ""`, os.Args[0])
	cmd.Env = append(os.Environ(), "CREW_TEST_WEB=1")
	p := crewtest.New(t, cmd).Start()
	crewtest.Until(t, func() bool { return strings.Contains(p.Stderr(), "http://") }, "the URL")
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	if err != nil {
		t.Skip("there is no /proc")
	}
	require.Regexp(t, `SigIgn:\s*[0-9a-f]*[13579bdf]\n`, string(status))
	p.Send(syscall.SIGTERM)
	p.Exits(0)
}

// startCrew starts crew.
func startCrew(t *testing.T, args ...string) *crewtest.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "CREW_TEST_MAIN=1", "HOME=", "XDG_STATE_HOME=")
	return crewtest.New(t, cmd).Start()
}

// site is a server as a browser sees it.
type site struct {
	t    *testing.T
	url  string       // of the list of runs
	stop func() error // ends the server and returns what Serve did
}

func startSite(t *testing.T, cfg Config) *site {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	urls, over := make(chan string, 1), make(chan error, 1)
	cfg.Notice = func(url string) { urls <- url }
	go func() { over <- Serve(ctx, cfg) }()
	s := &site{t: t, stop: func() error {
		cancel()
		err := crewtest.Receive(t, over, "the end of the server")
		over <- err
		return err
	}}
	t.Cleanup(func() { require.NoError(t, s.stop()) })
	s.url = crewtest.Receive(t, urls, "the URL")
	return s
}

// get returns the answer to a request below the URL.
func (s *site) get(path string) (status int, text string) {
	s.t.Helper()
	resp, err := http.Get(s.url + path)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, string(b)
}

var placeForm = regexp.MustCompile(`[A-Z2-7]{26}-[0-9]+`)

// open waits for a run and returns the path of its page's events.
func (s *site) open(pid int) string {
	s.t.Helper()
	page := ""
	crewtest.Until(s.t, func() bool {
		var status int
		status, page = s.get(fmt.Sprintf("run/%d/", pid))
		return status == http.StatusOK
	}, "run %d", pid)
	return fmt.Sprintf("run/%d/%s/", pid, placeForm.FindString(page))
}

// do sends a request as a page does and returns the answer.
func (s *site) do(path, request string) (status int, reply control.Reply) {
	s.t.Helper()
	req, err := http.NewRequest("POST", s.url+path+"do", strings.NewReader(request))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Origin", "http://"+req.URL.Host)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	require.NoError(s.t, json.NewDecoder(resp.Body).Decode(&reply))
	return resp.StatusCode, reply
}

// sse is a server-sent event.
type sse struct{ name, id, data string }

// lines returns the lines of an event.
func (e sse) lines(t *testing.T) (list []control.Reply) {
	t.Helper()
	if e.name == "lines" {
		require.NoError(t, json.Unmarshal([]byte(e.data), &list), e.data)
	}
	return list
}

// browser reads server-sent events.
type browser struct {
	t    *testing.T
	resp *http.Response
	in   *bufio.Reader
}

// listen opens a stream of events. last is the ID of the last event that the browser got, or "".
func listen(t *testing.T, url, last string) *browser {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), crewtest.Patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	require.NoError(t, err)
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { resp.Body.Close() })
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "text/event-stream", resp.Header.Get("Content-Type"))
	return &browser{t, resp, bufio.NewReader(resp.Body)}
}

// next returns the next event, or one without a name at the end of the stream.
func (b *browser) next() (e sse) {
	b.t.Helper()
	for {
		line, err := b.in.ReadString('\n')
		if err == io.EOF {
			return sse{}
		}
		require.NoError(b.t, err)
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "":
			if e.name != "" {
				return e
			}
		}
	}
}

// until reads events until one matches, and returns it.
func (b *browser) until(right func(sse) bool) sse {
	b.t.Helper()
	for {
		e := b.next()
		require.NotEmpty(b.t, e.name, "the stream has ended")
		if right(e) {
			return e
		}
	}
}

// finished waits for the end of a task.
func (b *browser) finished(id uint64) (end control.Reply) {
	b.t.Helper()
	b.until(func(e sse) bool {
		for _, l := range e.lines(b.t) {
			if l.Name == "finished" && l.Task == id {
				end = l
				return true
			}
		}
		return false
	})
	return end
}

// status waits for a status that matches.
func (b *browser) status(right func(*control.Status) bool) {
	b.t.Helper()
	b.until(func(e sse) bool {
		if e.name != "status" {
			return false
		}
		var s control.Status
		require.NoError(b.t, json.Unmarshal([]byte(e.data), &s))
		return right(&s)
	})
}
