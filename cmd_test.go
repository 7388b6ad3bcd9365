package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/cli"
	"crew/runner/linux"
)

// TestMain makes this binary stand in for crew in the scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"crew": func() { os.Exit(cli.Main(os.Args, os.Stdin, os.Stdout, os.Stderr, processes)) },
	})
}

// TestScript runs testdata/script/*.txtar: what a user sees, a behaviour a
// file. Beside testscript's own commands a script has:
//
//	status END program args...   run it; it ends with exit status END, or is
//	                             killed by the signal of that name, such as INT
//	start program args...        run it beside the script, with an open pipe as
//	                             its standard input; one at a time
//	feed FILE                    write FILE to that pipe
//	endinput                     close it
//	signal NAME                  send the started program a signal
//	await FILE...                wait until these files exist
//	says stdout|stderr REGEX     wait until the started program has written it
//	ended END                    wait for its end, as status does
//	gone FILE                    wait until the process whose id is in FILE is no more
func TestScript(t *testing.T) {
	// As they may be in the background of a script, or under nohup.
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP} {
		if linux.Ignored(sig) {
			linux.Reset(sig)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("CREW_UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			// Under -race a program sleeps for a second before it exits, unless told.
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Values[startedKey{}] = &started{env: env.Vars}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":   cmdStatus,
			"start":    cmdStart,
			"feed":     cmdFeed,
			"endinput": cmdEndInput,
			"signal":   cmdSignal,
			"await":    cmdAwait,
			"says":     cmdSays,
			"ended":    cmdEnded,
			"gone":     cmdGone,
		},
	})
}

// patience is how long a script waits for what has to happen: far longer than
// it takes on a busy machine.
const patience = time.Minute

// waitUntil waits until ok holds, and fails the script when it never does.
func waitUntil(ts *testscript.TestScript, what string, ok func() bool) {
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			ts.Fatalf("waited in vain for %s", what)
		}
	}
}

// usage fails the script where a command is written wrongly.
func usage(ts *testscript.TestScript, neg, right bool, text string) {
	if neg || !right {
		ts.Fatalf("usage: %s", text)
	}
}

// checkEnd fails the script unless err is how a program ended that was to end
// with want: an exit status, or the name of a signal without SIG.
func checkEnd(ts *testscript.TestScript, want string, err error) {
	got := "0"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = strconv.Itoa(exit.ExitCode())
		if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
			got = strings.TrimPrefix(unix.SignalName(ws.Signal()), "SIG")
		}
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("ended with %s, want %s", got, want)
	}
}

func cmdStatus(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) > 1, "status END program args...")
	checkEnd(ts, args[0], ts.Exec(args[1], args[2:]...))
}

// started is the program that runs beside the script.
type started struct {
	env      []string
	cmd      *exec.Cmd
	stdin    io.WriteCloser
	out, err output
}

type startedKey struct{}

// output is what a program has written so far.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write takes p.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

// String is all that was written.
func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// running is the started program of the script.
func running(ts *testscript.TestScript) *started {
	s := ts.Value(startedKey{}).(*started)
	if s.cmd == nil {
		ts.Fatalf("no program was started")
	}
	return s
}

func cmdStart(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) > 0, "start program args...")
	s := ts.Value(startedKey{}).(*started)
	if s.cmd != nil {
		ts.Fatalf("a program was started already")
	}
	s.cmd = exec.Command(args[0], args[1:]...)
	s.cmd.Dir, s.cmd.Env = ts.MkAbs("."), s.env
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.err
	s.cmd.WaitDelay = time.Second // what it may leave behind has its pipes
	var err error
	s.stdin, err = s.cmd.StdinPipe()
	ts.Check(err)
	ts.Check(s.cmd.Start())
	ts.Defer(func() {
		if s.cmd != nil { // the script failed before its end
			_ = s.cmd.Process.Kill()
			_ = s.cmd.Wait()
		}
	})
}

func cmdFeed(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "feed FILE")
	_, err := io.WriteString(running(ts).stdin, ts.ReadFile(args[0]))
	ts.Check(err)
}

func cmdEndInput(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 0, "endinput")
	ts.Check(running(ts).stdin.Close())
}

func cmdSignal(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1 && unix.SignalNum("SIG"+args[0]) != 0, "signal NAME")
	ts.Check(running(ts).cmd.Process.Signal(unix.SignalNum("SIG" + args[0])))
}

func cmdAwait(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) > 0, "await FILE...")
	for _, name := range args {
		waitUntil(ts, name, func() bool {
			_, err := os.Stat(ts.MkAbs(name))
			return err == nil
		})
	}
}

func cmdSays(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2 && (args[0] == "stdout" || args[0] == "stderr"), "says stdout|stderr REGEX")
	s := running(ts)
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	from := map[string]*output{"stdout": &s.out, "stderr": &s.err}[args[0]]
	waitUntil(ts, args[0]+" "+args[1], func() bool { return re.MatchString(from.String()) })
}

func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "ended END")
	s := running(ts)
	late := time.AfterFunc(patience, func() { _ = s.cmd.Process.Kill() })
	err := s.cmd.Wait()
	late.Stop()
	_, _ = io.WriteString(ts.Stdout(), s.out.String())
	_, _ = io.WriteString(ts.Stderr(), s.err.String())
	*s = started{env: s.env}
	checkEnd(ts, args[0], err)
}

func cmdGone(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "gone FILE")
	pid := strings.TrimSpace(ts.ReadFile(args[0]))
	if _, err := strconv.Atoi(pid); err != nil {
		ts.Fatalf("no process id in %s: %q", args[0], pid)
	}
	waitUntil(ts, "the end of process "+pid, func() bool {
		line, _ := os.ReadFile("/proc/" + pid + "/cmdline") // a zombie's is empty
		return len(line) == 0
	})
}

// build builds crew as people install it: -race multiplies memory.
func build(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "crew")
	out, err := exec.Command("go", "build", "-tags", "urfave_cli_no_docs", "-o", path, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

// peak is the most memory that a process has had resident, in KiB.
func peak(t *testing.T, pid int) int {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Skipf("no /proc: %v", err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	require.NotNil(t, m)
	n, err := strconv.Atoi(string(m[1]))
	require.NoError(t, err)
	return n
}

// mostKiB is what a run may have resident, however long it is.
const mostKiB = 40 << 10

// TestMemoryManyRecords reads two million records.
func TestMemoryManyRecords(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), build(t), "-n1000", "true")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	w := bufio.NewWriterSize(in, 64<<10)
	early := 0
	for i := range 2_000_000 {
		_, err := fmt.Fprintf(w, "/some/where/record-%d\n", i)
		require.NoError(t, err)
		if i == 200_000 {
			early = peak(t, cmd.Process.Pid)
		}
	}
	require.NoError(t, w.Flush())
	late := peak(t, cmd.Process.Pid) // all but what fits the pipe and the read-ahead was run
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	require.Less(t, late, mostKiB)
	require.Less(t, late-early, 8<<10, "grows with the input: %d KiB, then %d KiB", early, late)
}

// TestMemoryBehindOne has twenty thousand results wait for one slow task.
func TestMemoryBehindOne(t *testing.T) {
	t.Parallel()
	const tasks = 20_000
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), build(t), "-k", "-j2", "sh", "-c", `
		case $1 in
		1) while [ ! -e go ]; do sleep 0.05; done ;;
		20000) > last ;;
		esac
		echo "$1 $PAD"`, "sh")
	pad := strings.Repeat("x", 1000)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PAD="+pad)
	var records, want strings.Builder
	for i := range tasks {
		fmt.Fprintln(&records, i+1)
		fmt.Fprintln(&want, i+1, pad)
	}
	cmd.Stdin = strings.NewReader(records.String())
	var got output
	cmd.Stdout = &got
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { // the one worker that is free takes them in order
		_, err := os.Stat(filepath.Join(dir, "last"))
		return err == nil
	}, 5*time.Minute, 20*time.Millisecond)
	resident := peak(t, cmd.Process.Pid)
	fds, err := os.ReadDir("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/fd")
	require.NoError(t, err)
	require.Empty(t, got.String())

	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o666))
	require.NoError(t, cmd.Wait())
	require.True(t, got.String() == want.String(), "results are lost or out of order")
	require.Less(t, resident, mostKiB)
	require.Less(t, len(fds), 64)
}
