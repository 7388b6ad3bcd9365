package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/exec/kernel"
)

func TestMain(m *testing.M) { os.Exit(crewtest.Main{M: m, Parallel: 6}.Run()) }

// TestScript runs testdata/script/*.txtar: what a user sees, a behaviour a
// file, with a crew and a crew-web that were built as people build them. Beside testscript's own commands a script has:
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
//	until REGEX program args...  run it again and again until it succeeds and its
//	                             standard output has a match
//	again FILE                   make FILE, and run the line by which the program that
//	                             ran last said how to run its failed tasks again
//
// Each script has a directory for the sockets of runs, so it does not see those of
// others.
//
// Beside testscript's own conditions, [sh:NAME] holds where /bin/sh is that shell,
// [namespaces] where the user may make a PID namespace, and [portable] in the form for
// systems other than Linux.
func TestScript(t *testing.T) {
	t.Parallel()
	crewtest.Build(t, "crew/runner/show/web/crew-web")
	programs := filepath.Dir(crewtest.Build(t, "crew"))
	require.NoError(t, os.Setenv("PATH", programs+string(filepath.ListSeparator)+os.Getenv("PATH")))
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("CREW_UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			workers, err := filepath.Abs("testdata/workers")
			if err != nil {
				return err
			}
			env.Setenv("WORKERS", workers)
			runtime := filepath.Join(env.WorkDir, ".run")
			env.Setenv("XDG_RUNTIME_DIR", runtime)
			env.Values[startedKey{}] = &started{env: env.Vars}
			// What was forked while the files of the script were written has them open for
			// writing until it executes a program. They cannot run before that.
			syscall.ForkLock.RLock()
			defer syscall.ForkLock.RUnlock()
			return os.Mkdir(runtime, 0o700)
		},
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "namespaces":
				return exec.Command("unshare", "-pf", "--mount-proc", "true").Run() == nil, nil
			case "portable":
				return kernel.Portable, nil
			case "root":
				return os.Geteuid() == 0, nil
			}
			sh, err := filepath.EvalSymlinks("/bin/sh")
			return cond == "sh:"+filepath.Base(sh), err
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
			"until":    cmdUntil,
			"again":    cmdAgain,
		},
	})
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
	out, err crewtest.Output
}

type startedKey struct{}

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
	s.cmd.WaitDelay = 5 * time.Second // what it may leave behind has its pipes
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
		crewtest.Exists(ts, ts.MkAbs(name))
	}
}

func cmdSays(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 2 && (args[0] == "stdout" || args[0] == "stderr"), "says stdout|stderr REGEX")
	s := running(ts)
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	from := map[string]*crewtest.Output{"stdout": &s.out, "stderr": &s.err}[args[0]]
	crewtest.Until(ts, func() bool { return re.MatchString(from.String()) }, "%s %s:\n%s", args[0], args[1], from)
}

func cmdEnded(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "ended END")
	s := running(ts)
	late := time.AfterFunc(crewtest.Patience, func() { _ = s.cmd.Process.Kill() })
	err := s.cmd.Wait()
	late.Stop()
	if errors.Is(err, exec.ErrWaitDelay) { // it has ended with status 0
		err = nil
	}
	_, _ = io.WriteString(ts.Stdout(), s.out.String())
	_, _ = io.WriteString(ts.Stderr(), s.err.String())
	*s = started{env: s.env}
	checkEnd(ts, args[0], err)
}

func cmdGone(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "gone FILE")
	pid := strings.TrimSpace(ts.ReadFile(args[0]))
	n, err := strconv.Atoi(pid)
	if err != nil {
		ts.Fatalf("no process id in %s: %q", args[0], pid)
	}
	crewtest.Gone(ts, n)
}

func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) > 1, "until REGEX program args...")
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	crewtest.Until(ts, func() bool {
		said := ts.Exec(args[1], args[2:]...) == nil && re.MatchString(ts.ReadFile("stdout"))
		if !said {
			time.Sleep(30 * time.Millisecond) // a start costs more than a look
		}
		return said
	}, "%s to say %s", args[1], args[0])
}

func cmdAgain(ts *testscript.TestScript, neg bool, args []string) {
	usage(ts, neg, len(args) == 1, "again FILE")
	line := regexp.MustCompile(`(?m)^crew: run \w+ again: (.*)`).FindStringSubmatch(ts.ReadFile("stderr"))
	if line == nil {
		ts.Fatalf("no line runs failed tasks again")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), nil, 0o666))
	ts.Check(ts.Exec("sh", "-c", line[1]))
}

// A thread of a static program takes little address space.
func TestAddressSpace(t *testing.T) {
	t.Parallel()
	// The last task lets all go on.
	script := `ulimit -v 1500000; mkfifo go; exec 3<>go; seq 200 |
		"$0" -j200 'exec 3<>go; [ {} != 200 ] || printf %200s | tr " " "\n" >&3; read x <&3'`
	cmd := exec.Command("sh", "-c", script, crewtest.Build(t, "crew"))
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
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

// mostKiB limits what a run has resident, however long it is.
const mostKiB = 40 << 10

// TestMemory runs a crew that was built as people build it. What it has
// resident depends neither on how much it reads nor on what waits to be shown.
func TestMemory(t *testing.T) {
	t.Parallel()
	crew := crewtest.Build(t, "crew")
	t.Run("many records", func(t *testing.T) {
		t.Parallel()
		readMany(t, crew)
	})
	t.Run("behind one", func(t *testing.T) {
		t.Parallel()
		waitBehindOne(t, crew)
	})
	t.Run("long answers", func(t *testing.T) {
		t.Parallel()
		answerLong(t, crew)
	})
}

// readMany has crew read 500,000 records, 13 MB.
func readMany(t *testing.T, crew string) {
	cmd := exec.CommandContext(t.Context(), crew, "-n2000", "true")
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	w := bufio.NewWriterSize(in, 64<<10)
	early := 0
	line := []byte("/some/where/record-")
	for i := range 500_000 {
		_, _ = w.Write(append(strconv.AppendInt(line, int64(i), 10), '\n')) // Flush returns the error
		if i == 250_000 {                                                   // the garbage collector has found its rhythm
			early = peak(t, cmd.Process.Pid)
		}
	}
	require.NoError(t, w.Flush())
	late := peak(t, cmd.Process.Pid) // all but what fits the pipe and the read-ahead was run
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	require.Less(t, late, mostKiB)
	require.Less(t, late-early, 12<<10, "grows with the input: %d KiB, then %d KiB", early, late)
}

// waitBehindOne has results wait for one slow task. They are more bytes than
// crew may have resident, and once the memory for them is used up each takes
// next to none. CREW_SOAK makes it twenty thousand results instead of eleven hundred.
func waitBehindOne(t *testing.T, crew string) {
	const early, size = 800, 40_000 // early ones fill the memory
	tasks := 1100
	if os.Getenv("CREW_SOAK") != "" {
		tasks = 20_000
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), crew, "-k", "-j2", "sh", "-c", fmt.Sprintf(`
		case $1 in
		1) while [ ! -e go ]; do sleep 0.3; done ;;
		%d) > early ;;
		%d) > last ;;
		esac
		echo "$1 $PAD"`, early, tasks), "sh")
	pad := strings.Repeat("x", size)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PAD="+pad)
	var records strings.Builder
	for i := range tasks {
		fmt.Fprintln(&records, i+1)
	}
	cmd.Stdin = strings.NewReader(records.String())
	out, err := os.Create(filepath.Join(dir, "out"))
	require.NoError(t, err)
	defer out.Close()
	cmd.Stdout = out
	require.NoError(t, cmd.Start())
	// The one worker that is free takes them in order.
	crewtest.Exists(t, filepath.Join(dir, "early"))
	then := peak(t, cmd.Process.Pid)
	crewtest.Exists(t, filepath.Join(dir, "last"))
	resident := peak(t, cmd.Process.Pid)
	fds, err := os.ReadDir("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/fd")
	require.NoError(t, err)
	info, err := out.Stat()
	require.NoError(t, err)
	require.Zero(t, info.Size(), "task 1 is not done yet")

	crewtest.WriteFile(t, filepath.Join(dir, "go"), "", 0o666)
	require.NoError(t, cmd.Wait())
	_, err = out.Seek(0, io.SeekStart)
	require.NoError(t, err)
	r := bufio.NewReader(out)
	for i := range tasks {
		line, err := r.ReadString('\n')
		require.NoError(t, err, "result %d is lost", i+1)
		require.True(t, line == strconv.Itoa(i+1)+" "+pad+"\n", "result %d is another: %.20s", i+1, line)
	}
	_, err = r.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.Less(t, resident, mostKiB)
	const slack = 6 << 10 // what the collector may leave for later
	require.Less(t, resident-then, 2*(tasks-early)+slack, "more than 2 KiB for each that waits: %d KiB, then %d KiB", then, resident)
	require.Less(t, len(fds), 64)
}

// answerLong has persistent workers answer lines of 10 MB, which together are more than
// crew may have resident.
func answerLong(t *testing.T, crew string) {
	const size, records = 10_000_000, 10
	cmd := exec.CommandContext(t.Context(), crew, "-k", "-j2", "--worker-window", "4", "--worker",
		`pad=$(head -c 1000000 /dev/zero | tr "\0" x); while read -r n; do printf %s $n; for i in 0 1 2 3 4 5 6 7 8 9; do printf %s $pad; done; echo; done`)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	for i := range records {
		_, err := fmt.Fprintln(in, i)
		require.NoError(t, err)
	}
	r := bufio.NewReaderSize(out, 64<<10)
	for i := range records {
		first, err := r.ReadByte()
		require.NoError(t, err)
		require.Equal(t, strconv.Itoa(i), string(first))
		n := 0
		for prefix := true; prefix; {
			var part []byte
			part, prefix, err = r.ReadLine()
			require.NoError(t, err)
			n += len(part)
		}
		require.Equal(t, size, n)
	}
	resident := peak(t, cmd.Process.Pid)
	require.NoError(t, in.Close())
	require.NoError(t, cmd.Wait())
	t.Logf("%d KiB", resident)
	require.Less(t, resident, mostKiB)
}
