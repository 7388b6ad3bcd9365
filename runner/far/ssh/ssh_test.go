package ssh

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestMain lets copies of this binary named crew-engine act as the worker.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == programName {
		worker()
		os.Exit(0)
	}
	if os.Getenv(asStdio) != "" {
		answerOnce()
		os.Exit(0)
	}
	if os.Getenv(asCaller) != "" {
		runCaller(os.Getenv(asCaller))
	}
	os.Exit(crewtest.Main{M: m, Parallel: 16}.Run())
}

// worker prints its ID and arguments, waits for an answer, and works until its standard input ends.
func worker() {
	fmt.Println(os.Getpid(), strings.Join(os.Args[1:], " "))
	in := bufio.NewReader(os.Stdin)
	answer, _ := in.ReadString('\n')
	fmt.Fprint(os.Stderr, "crew: ", answer)
	_, _ = io.Copy(io.Discard, in)
}

// startAll starts a worker on each host. It returns the notices about them, and the server's ends of
// their connections.
func startAll(t *testing.T, ssh string, hosts ...Host) (p *Hosts, notices *crewtest.Output, conns chan net.Conn) {
	notices, conns = &crewtest.Output{}, make(chan net.Conn, len(hosts))
	p, err := Start(Config{
		Hosts:  hosts,
		SSH:    ssh,
		Notice: func(text string) { fmt.Fprintln(notices, text) },
		Connect: func() (net.Conn, error) {
			here, there := net.Pipe()
			conns <- here
			return there, nil
		},
	})
	require.NoError(t, err)
	return p, notices, conns
}

const asCaller = "CREW_TEST_CALLER"

// runCaller starts a worker on this machine and on another one, prints their process IDs, and blocks for
// ever.
func runCaller(ssh string) {
	_, err := Start(Config{
		Hosts: []Host{{}, {Target: "web1"}}, SSH: ssh, Notice: func(string) {},
		Connect: func() (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				id, _ := bufio.NewReader(here).ReadString(' ')
				fmt.Println(id)
			}()
			return there, nil
		},
	})
	if err != nil {
		panic(err)
	}
	select {}
}

// A process that is killed leaves no worker and no ssh behind.
func TestKilled(t *testing.T) {
	t.Parallel()
	s := crewtest.StartSSHD(t)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), asCaller+"="+s.SSH)
	p := crewtest.New(t, cmd).Start()
	var ids []string
	crewtest.Until(t, func() bool {
		ids = strings.Fields(p.Stdout())
		return len(ids) == 2
	}, "two workers")
	p.Kill()
	for _, id := range ids {
		pid, err := strconv.Atoi(id)
		require.NoError(t, err)
		crewtest.Gone(t, pid)
	}
	p.Gone()
}

// Workers start on hosts of which some cannot be reached.
func TestHosts(t *testing.T) {
	t.Parallel()
	s := crewtest.StartSSHD(t)
	cache := filepath.Join(s.Home, ".cache/crew")
	old, mine := filepath.Join(cache, strings.Repeat("0a", 32)), []string{filepath.Join(cache, "mine/thesis"), filepath.Join(cache, strings.Repeat("0b", 32), "thesis")}
	for _, path := range append(mine, filepath.Join(old, programName), filepath.Join(old, "part.x")) {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		crewtest.WriteFile(t, path, "", 0o700)
		require.NoError(t, os.Chtimes(filepath.Dir(path), time.Time{}, time.Now().Add(-60*24*time.Hour)))
	}
	hosts := []Host{{Target: "web1", Args: []string{"one", "$HOME 'quoted'"}}, {Target: "web2", Args: []string{"two"}}, {}, {Target: "away"}, {Target: "closed"}}
	for _, installed := range []bool{false, true} {
		p, notices, conns := startAll(t, s.SSH, hosts...)
		stop := sync.OnceFunc(p.Close)
		defer stop()
		pids := map[string]int{}
		for range 3 {
			conn := crewtest.Receive(t, conns, "a connection")
			line, err := bufio.NewReader(conn).ReadString('\n')
			require.NoError(t, err, notices)
			pid, args, _ := strings.Cut(strings.TrimSpace(line), " ")
			pids[args], err = strconv.Atoi(pid)
			require.NoError(t, err)
			_, err = fmt.Fprintln(conn, "it speaks")
			require.NoError(t, err)
		}
		require.Contains(t, pids, "one $HOME 'quoted'")
		require.Contains(t, pids, "two")
		require.Contains(t, pids, "")
		crewtest.Until(t, func() bool {
			text := notices.String()
			return strings.Count(text, "cannot reach it") == 2 && strings.Count(text, "it speaks") == 3
		}, "two hosts to fail and three to speak: %s", notices)
		stop()
		for _, pid := range pids {
			crewtest.Gone(t, pid)
		}
		require.Regexp(t, `(?m)^web1: it speaks$`, notices.String())
		require.Regexp(t, `(?m)^this machine: it speaks$`, notices.String())
		require.Regexp(t, `(?m)^away: cannot reach it \(ssh: Could not resolve hostname .*\): trying again; .ssh away true. must work without a prompt$`, notices.String())
		require.Regexp(t, `(?m)^closed: cannot reach it \(.* Connection refused\): trying again; .ssh closed true. must`, notices.String())
		require.Equal(t, !installed, strings.Contains(notices.String(), ": copying crew-engine there: "), notices)
	}
	require.NoDirExists(t, old, "it has not been used for a month")
	for _, path := range mine {
		require.FileExists(t, path)
	}
	there, err := filepath.Glob(filepath.Join(cache, "*", programName))
	require.NoError(t, err)
	require.Len(t, there, 1)
	info, err := os.Stat(there[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode())
}

// crew-engine cannot run on some hosts.
func TestUnusableHosts(t *testing.T) {
	t.Parallel()
	s := crewtest.StartSSHD(t)
	program, err := (&programs{}).get("")
	require.NoError(t, err)
	self, err := os.Executable()
	require.NoError(t, err)
	machine, arch := otherMachine(program, 1)
	fill := strings.NewReplacer("HASH", program.hash, "HERE", program.platform, "MACHINE", machine, "ARCH", arch, "DIR", filepath.Dir(self)).Replace
	crewtest.Examples(t, "testdata/unusable.jsonl", func(t *testing.T, row struct{ Program, Does, Says string }) {
		file := script(t, s, fill(row.Program), fill(row.Does))
		p, notices, _ := startAll(t, s.SSH, Host{Target: "web1"})
		crewtest.Until(t, func() bool { return notices.String() != "" }, "a notice")
		p.Close()
		require.True(t, strings.HasPrefix(notices.String(), fill(row.Says)), notices)
		if row.Does == "" {
			require.NoError(t, os.Remove(file))
		}
	})
}

// script writes a program below the home of a host.
func script(t *testing.T, s crewtest.SSHD, name, text string) string {
	file := filepath.Join(s.Home, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	crewtest.WriteFile(t, file, "#!/bin/sh\n"+text+"\n", 0o700)
	return file
}

// A worker that fails is restarted; one that ends by itself is not.
func TestRestart(t *testing.T) {
	t.Parallel()
	p, notices, conns := startAll(t, "", Host{Args: []string{"it"}})
	defer p.Close()
	first := crewtest.Receive(t, conns, "a connection")
	line, err := bufio.NewReader(first).ReadString(' ')
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	second := crewtest.Receive(t, conns, "another connection")
	_, err = bufio.NewReader(second).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, second.Close())
	crewtest.Until(t, func() bool { return strings.Contains(notices.String(), "ended") }, "the end of the worker: %s", notices)
	require.Equal(t, "this machine: lost its worker (signal: killed): restarting it\nthis machine: connected\n"+
		"this machine: its worker has ended and is not restarted\n", notices.String())
	require.Equal(t, []string{"hosts that were lost: this machine"}, p.Missing())
}

// Only another machine needs ssh.
func TestNoSSH(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	p, err := Start(Config{})
	require.NoError(t, err)
	p.Close()
	_, err = Start(Config{Hosts: []Host{{}, {Target: "web1"}}})
	require.ErrorContains(t, err, "install openssh-client")
}

// TestReach plays the stories of testdata/reach.txt, in which hosts and their workers come and go. The steps "now" and
// "missing" are followed by what CheckReachable and Missing say.
func TestReach(t *testing.T) {
	crewtest.Stories(t, "testdata/reach.txt", func(t *testing.T, story []string) {
		p, now, hosts := &Hosts{}, time.Duration(0), map[string]*host{}
		for _, line := range story {
			step, text, _ := strings.Cut(line, ": ")
			words := append(strings.Fields(step), "", "")
			h, said := hosts[words[1]], ""
			pause, _ := time.ParseDuration(words[len(words)-3])
			switch words[0] {
			case "host": // it joined so long ago; "-" is this machine
				h = &host{Host: Host{Target: strings.Trim(words[1], "-")}, all: p, stage: starting, joined: time.Now().Add(-pause)}
				hosts[words[1]], p.hosts = h, append(p.hosts, h)
			case "copying":
				h.setStage(copying)
			case "works":
				h.setStage(working)
			case "ends":
				h.workerEnded(nil)
			case "fails":
				h.workerEnded(errors.New("it has failed"))
			case "unreachable":
				_ = h.unreachable(text)
			case "reach":
				p.c.Reach = pause
			case "after":
				now += pause
			case "missing":
				require.Equal(t, text, strings.Join(p.Missing(), "; "), line)
			case "now":
				if err := p.CheckReachable(now); err != nil {
					said = err.Error()
				}
				require.Equal(t, text, said, line)
			default:
				t.Fatal("no step: ", line)
			}
		}
	})
}

// The last line of a process that was killed is not the reason for its end.
func TestExplain(t *testing.T) {
	t.Parallel()
	h := &host{stage: working}
	end := func(script string) *os.ProcessState {
		cmd := exec.Command("sh", "-c", script)
		_ = cmd.Run()
		return cmd.ProcessState
	}
	require.EqualError(t, h.explain(end("kill -9 $$"), "welcome"), "lost its worker (signal: killed): restarting it")
	require.EqualError(t, h.explain(end("exit 3"), "no space"), "lost its worker (no space): restarting it")
}

// A line may arrive in parts.
func TestStderr(t *testing.T) {
	t.Parallel()
	var shown []string
	s := &stderrLines{show: func(line string) { shown = append(shown, line) }}
	write := func(text string) { _, _ = s.Write([]byte(text)) }
	write("welcome\n")
	s.live.Store(true)
	write("crew: a\n\n b")
	write(" c\n" + strings.Repeat("x", 2*maxLine) + "\n")
	s.live.Store(false)
	write("late\nnot whole")
	require.Equal(t, []string{"a", "b c", strings.Repeat("x", maxLine)}, shown)
	require.Equal(t, "late", s.last.Load())
}
