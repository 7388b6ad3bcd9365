package history

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/task"
)

// place is a directory in which real runs leave their records.
type place struct {
	t         *testing.T
	dir, crew string
}

func TestRealRuns(t *testing.T) {
	crew := crewtest.Build(t, "crew")
	for name, test := range map[string]func(*testing.T, *place){
		"results": testResults,
		"queue":   testQueue,
		"state":   testState,
		"times":   testTimesOfState,
		"damaged": testDamagedState,
		"watched": testWatchedRun,
	} {
		t.Run(name, func(t *testing.T) { test(t, &place{t, t.TempDir(), crew}) })
	}
}

// command returns a command to be run there.
func (p *place) command(args ...string) *exec.Cmd {
	cmd := exec.Command(p.crew, args...)
	cmd.Dir = p.dir
	return cmd
}

// run runs crew, and returns what it writes on standard output. Its tasks may fail.
func (p *place) run(args ...string) string {
	p.t.Helper()
	var stderr bytes.Buffer
	cmd := p.command(args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		require.Equal(p.t, 123, cmd.ProcessState.ExitCode(), stderr.String())
	}
	return string(out)
}

// reads returns what a file or a directory there tells, in few words and without command lines.
func (p *place) reads(name string) string {
	p.t.Helper()
	var list []string
	all := briefs(&list)
	require.NoError(p.t, Read(filepath.Join(p.dir, name), nil, func(l *Line) error {
		if l.Name == Began {
			l.Text = ""
		}
		return all(l)
	}))
	return strings.Join(list, "\n")
}

// flaky fails with words on both streams until its last attempt.
const flaky = `echo out $CREW_ATTEMPT; [ $CREW_ATTEMPT = {} ] || { echo err $CREW_ATTEMPT >&2; exit 3; }`

func testResults(t *testing.T, p *place) {
	for range 2 {
		out := p.run("-q", "-j1", "--retries", "1", "--retry-delay", "0", "--json", flaky, ":::", "1", "2", "9")
		f, err := os.OpenFile(filepath.Join(p.dir, "results"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
		require.NoError(t, err)
		_, err = f.WriteString(out)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	run := `began
finished 1 ok
retried 2 exit "err 1\n"
finished 2 ok attempt 2
retried 3 exit "err 1\n"
finished 3 exit attempt 2 "err 2\n"`
	require.Equal(t, run+"\n"+run, p.reads("results"))
}

func TestJoblogOfParallel(t *testing.T) {
	if _, err := exec.LookPath("parallel"); err != nil {
		t.Skip("there is no parallel")
	}
	p := place{t: t, dir: t.TempDir()}
	for range 2 {
		cmd := exec.Command("parallel", "-j1", "--joblog", "+log", "[ {} != b ] || exit 3 #", ":::", "a", "b", `c\f`)
		cmd.Dir = p.dir
		cmd.Env = append(os.Environ(), "HOME="+p.dir, "PARALLEL_SHELL=/bin/sh", "LC_ALL=C")
		_ = cmd.Run()
	}
	run := "began\nfinished 1 ok\nfinished 2 exit\nfinished 3 ok"
	require.Equal(t, run+"\n"+run, p.reads("log"))
	require.NoError(t, Read(filepath.Join(p.dir, "log"), nil, func(l *Line) error {
		require.Equal(t, Began == l.Name, l.Start.IsZero())
		if l.Task == 3 {
			require.Contains(t, l.Command, `c\f`)
		}
		return nil
	}))
}

// The tasks of a queue are told from when they were added.
func testQueue(t *testing.T, p *place) {
	for _, arg := range []string{"true", "exit 3"} {
		cmd := p.command("serve", "-q", "--state", "queue", "--output", "none")
		require.NoError(t, cmd.Start())
		pid := strconv.Itoa(cmd.Process.Pid) // clients see other runs of the user, too
		crewtest.Until(t, func() bool { return p.command("ctl", "add", "--to", pid, "sh", "-c", arg).Run() == nil }, "a socket")
		require.NoError(t, p.command("ctl", "drain", "--rest", pid).Run())
		_ = cmd.Wait()
	}
	require.Equal(t, `began
admitted 1
started 1
finished 1 ok
over
began
admitted 2
started 2
finished 2 exit
over`, p.reads("queue"))
}

// A run that is killed leaves starts without ends; one that goes on has these tasks again,
// and no others. A compaction leaves the ends, and what they say of earlier attempts.
func testState(t *testing.T, p *place) {
	args := []string{"-q", "-j1", "--json", "--retries", "1", "--retry-delay", "0", "--state", "state",
		`[ -e go -o {} = 1 ] || { touch begun; exec sleep 1000; }; [ {} != 9 ] || head -c 100000 /dev/zero; ` + flaky, ":::", "1", "2", "9"}
	cmd := p.command(args...)
	require.NoError(t, cmd.Start())
	crewtest.Exists(t, filepath.Join(p.dir, "begun"))
	crewtest.Until(t, func() bool { return strings.Contains(p.reads("state"), "finished 1 ok") }, "the end of task 1 while the run goes on")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.Equal(t, "began\nstarted 1\nfinished 1 ok\nstarted 2", p.reads("state"))

	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o666))
	p.run(args...)
	want := `began
started 1
finished 1 ok
started 2
began
started 2
retried 2 exit
started 3
retried 3 exit
started 2 attempt 2
finished 2 ok attempt 2
started 3 attempt 2
finished 3 exit attempt 2 "err 2\n"
over`
	require.Equal(t, want, p.reads("state"))
	p.run(append([]string{"--retry-failed"}, args...)...)
	require.Equal(t, want+`
began
started 3 attempt 3
retried 3 exit attempt 3
started 3 attempt 4
finished 3 exit attempt 4 "err 4\n"
over`, p.reads("state"))

	p.run(append([]string{"--retry-failed"}, args...)...) // begins with a compaction
	p.run(args...)
	require.Equal(t, `began
finished 1 ok
retried 2 exit
finished 2 ok attempt 2
began
retried 3 exit attempt 5
finished 3 exit attempt 6 "err 6\n"
began
over`, p.reads("state"))

	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "dumped"), []byte(p.run("state", "--json", "state")), 0o666))
	require.Equal(t, `began
finished 1 ok
retried 2 exit
finished 2 ok attempt 2
began
retried 3 exit attempt 5
finished 3 exit attempt 6
began
over`, p.reads("dumped"), "without the outputs")
}

// From a directory of --state, commands are known whole although its lines cut them.
func testTimesOfState(t *testing.T, p *place) {
	long := strings.Repeat("x", 200)
	p.run("-q", "-j1", "--state", "state", "sh", "-c", "exit $1", long, ":::", "0", "1")
	var times Times
	require.NoError(t, times.Add(filepath.Join(p.dir, "state")))
	require.Equal(t, 2, times.Len())
	for arg, want := range map[string]bool{"0": true, "1": true, "2": false} {
		_, _, ok := times.Of(command("sh", "-c", "exit $1", long, arg))
		require.Equal(t, want, ok, arg)
	}
}

func testDamagedState(t *testing.T, p *place) {
	p.run("-q", "-j1", "--state", "state", "exit", ":::", "0", "1", "2")
	path := filepath.Join(p.dir, "state", "journal.jsonl")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(text, []byte(`"exit":1`), []byte(`"exit":7`), 1), 0o666))
	told := p.reads("state")
	require.NotContains(t, told, "finished 2")
	require.Regexp(t, `finished 3 exit\nover\ndamaged .*/journal.jsonl: line \d+ at byte \d+ is damaged and left out; .*$`, told)
}

// What a client saw of a run is read as it was.
func testWatchedRun(t *testing.T, p *place) {
	cmd := p.command("-q", "-j1", "--retries", "1", "--retry-delay", "0",
		"while [ ! -e go ]; do sleep 0.05; done; "+flaky, ":::", "1", "2")
	require.NoError(t, cmd.Start())
	file, err := os.Create(filepath.Join(p.dir, "watched"))
	require.NoError(t, err)
	defer file.Close()
	pid := strconv.Itoa(cmd.Process.Pid)
	crewtest.Until(t, func() bool { return p.command("ctl", "status", pid).Run() == nil }, "a socket")
	watch := p.command("ctl", "watch", "--json", pid)
	watch.Stdout = file
	require.NoError(t, watch.Start())
	crewtest.Until(t, func() bool { return p.reads("watched") != "" }, "the first line")
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "go"), nil, 0o666))
	_, _ = cmd.Process.Wait()
	require.NoError(t, watch.Wait())
	var list []string
	for line := range strings.Lines(p.reads("watched")) {
		for _, name := range []string{"began", "started", "retried", "finished", "over"} {
			if strings.HasPrefix(line, name) {
				list = append(list, strings.TrimSpace(line))
			}
		}
	}
	require.Equal(t, "began|finished 1 ok|started 2|retried 2 exit|started 2 attempt 2|finished 2 ok attempt 2|over", strings.Join(list, "|"))
}

// A task that was interrupted with its run, and that the next run did, counts once.
func TestInterruptedTaskCountsOnce(t *testing.T) {
	f := NewFold()
	require.NoError(t, ReadStream("state", strings.NewReader(`
{"event":"journal","version":5,"created":"2026-11-26T11:00:00Z","command":"crew x","sum":"1"}
{"event":"run","at":"2026-11-26T11:00:00Z","pid":1,"done":0}
{"event":"started","id":"a","task":1,"command":"x a","attempt":1,"worker":1,"start":"2026-11-26T11:00:01Z"}
{"event":"attempt","id":"a","task":1,"command":"x a","outcome":"cancelled","signal":15,"attempt":1,"worker":1,"start":"2026-11-26T11:00:01Z","duration":1}
{"event":"closed","at":"2026-11-26T11:00:02Z"}
{"event":"run","at":"2026-11-26T11:00:03Z","pid":2,"done":0}
{"event":"started","id":"a","task":1,"command":"x a","attempt":1,"worker":1,"start":"2026-11-26T11:00:04Z"}
{"event":"ended","id":"a","task":1,"command":"x a","outcome":"ok","exit":0,"attempt":1,"worker":1,"start":"2026-11-26T11:00:04Z","duration":2}
{"event":"closed","at":"2026-11-26T11:00:06Z"}
`), func(l *Line) error { f.Add(l); return nil }))
	r := f.Report()
	require.EqualValues(t, 1, r.Total.Tasks)
	require.EqualValues(t, 0, r.Total.Retries)
	require.EqualValues(t, 1, r.Outcomes[task.OK])
	require.Zero(t, r.Outcomes[task.Cancelled])
	require.Len(t, r.Attempts.Task, 2)
}
