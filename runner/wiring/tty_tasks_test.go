package wiring

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
)

// startShell starts an interactive bash that knows crew as "$CREW".
func startShell(t *testing.T) *terminal {
	cmd := exec.Command("/bin/bash", "--norc", "--noprofile", "--noediting", "-i")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "CREW_TEST_MAIN=1", "CREW="+os.Args[0], "PS1=$ ", "HISTFILE=")
	v := startOnTerminal(t, 200, cmd)
	v.await(t, `^\$ `)
	return v
}

// TestTTYPrompts has each task ask a question.
func TestTTYPrompts(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("/bin/sh", "-c", `printf 'a\nb\n' | "$CREW" --tty 'printf "name of %s? " {}; read x; stty -echo; printf "secret? "; read y; echo "{}=$x$y"'`)
	cmd.Env = append(os.Environ(), "CREW_TEST_MAIN=1", "CREW="+os.Args[0])
	v := startOnTerminal(t, 80, cmd)
	for _, name := range []string{"a", "b"} {
		v.await(t, `^name of `+name+`\? $`)
		v.say(t, "one\n")
		v.await(t, `^secret\? $`)
		v.say(t, "two\n")
		v.await(t, name+`=onetwo$`)
	}
	status, lines := v.end(t)
	require.Zero(t, status.ExitStatus())
	require.Equal(t, []string{"name of a? one", "secret? a=onetwo", "name of b? one", "secret? b=onetwo"}, withoutSummary(lines))
}

// inFront has a task wait until it is in the foreground. In the portable form it may run
// a moment before, when Ctrl-C still is crew's.
const inFront = `until read -r _ _ _ _ pg _ _ fg _ < /proc/$$/stat && [ $pg = $fg ]; do :; done; `

// TestTTYInterrupt has Ctrl-C end a task, and so the run, the rest of the pipeline and
// the script that called crew.
func TestTTYInterrupt(t *testing.T) {
	t.Parallel()
	v := startShell(t)
	require.NoError(t, os.WriteFile(filepath.Join(v.cmd.Dir, "script"),
		[]byte(`"$CREW" --tty --retries 1 '`+inFront+`echo on {}; exec sleep 600' ::: a b | cat; echo not rea""ched`), 0o666))
	v.say(t, "sh script\n")
	v.await(t, `^on a$`)
	v.say(t, "\x03")
	v.await(t, `crew: draining: no task is running; not retrying 1 failed task$`)
	v.await(t, `^crew: task 1 waits for a retry: killed by SIGINT after `)
	v.say(t, "echo status $?\n")
	v.await(t, `status 130$`)
	require.NotContains(t, v.text(), "on b")
	require.NotContains(t, v.text(), "not reached")

	// A task that goes on after Ctrl-C has said that it is not the end.
	crewtest.WriteFile(t, filepath.Join(v.cmd.Dir, "task"), inFront+`trap "echo caught; exit 3" INT; echo on $1; while :; do sleep 0.05; done`, 0o666)
	v.say(t, `"$CREW" --tty --joblog log 'exec sh task {}' ::: c d; echo "status $?"`+"\n")
	v.await(t, `^on c$`)
	v.say(t, "\x03")
	v.await(t, `^on d$`)
	v.say(t, "\x03")
	v.await(t, `status 123$`)
}

// TestTTYSuspend has Ctrl-Z stop crew and its task, and bash continue them in the
// foreground, and in the background until the task asks for the terminal.
func TestTTYSuspend(t *testing.T) {
	t.Parallel()
	v := startShell(t)
	v.say(t, `stty -a > before; "$CREW" --tty 'stty -echo; echo on {}; read x; echo got $x' ::: a b | cat; echo end`+"\n")
	v.await(t, `^on a$`)
	v.say(t, "\x1a")
	v.await(t, `^\[1\]\+ +Stopped `)
	v.say(t, "stty -a > after; cmp before after && echo the sa''me\n")
	v.await(t, `the same$`)
	v.say(t, "fg\n")
	v.await(t, `(?s)the same.*CREW.*\n`)
	crewtest.Until(t, func() bool { return v.modes(t).Lflag&unix.ECHO == 0 }, "the terminal not to echo")
	v.say(t, "hidden\n")
	v.await(t, `^got hidden\non b$`)
	require.Equal(t, 1, strings.Count(v.text(), "hidden"))

	v.say(t, "\x1a")
	v.await(t, `(?s)on b\n.*Stopped `)
	v.say(t, "bg; until jobs -s | grep -q CREW; do sleep 0.05; done; echo it wa''nts it; fg\n")
	v.await(t, `(?s)it wants it\n.*CREW.*\n`)
	v.say(t, "two\n")
	v.await(t, `got two$`)
	v.say(t, "echo al''ive; exit\n")
	v.await(t, `alive$`)
}

// TestTTYModes has a task leave the terminal in a bad state.
func TestTTYModes(t *testing.T) {
	t.Parallel()
	v := startShell(t)
	v.say(t, `stty -a > before; "$CREW" --tty 'stty raw -echo; kill -9 $$' ::: a; stty -a > after; cmp before after && echo the sa""me`+"\n")
	v.await(t, `the same$`)
	v.say(t, `"$CREW" --tty no-such-program ::: a; echo "status $?"`+"\n")
	v.await(t, `status 127$`)
	v.say(t, "echo al''ive; exit\n")
	v.await(t, `alive$`)
}

// TestTTYOrphan kills crew while a task has the terminal.
func TestTTYOrphan(t *testing.T) {
	t.Parallel()
	v := startShell(t)
	v.say(t, `"$CREW" --tty 'echo "{} $PPID task $$"; exec sleep 600' ::: a`+"\n")
	v.await(t, `^a \d+ task \d+$`)
	id := regexp.MustCompile(`a (\d+) task (\d+)\n`).FindStringSubmatch(v.text())
	crew, err := strconv.Atoi(id[1])
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(crew, syscall.SIGKILL))
	task, err := strconv.Atoi(id[2])
	require.NoError(t, err)
	crewtest.Gone(t, task)
	v.say(t, "echo al''ive; exit\n")
	v.await(t, `alive$`)
}

// TestTaskTerminalsHaveTheSizeOfCrews: when it starts, and when the window changes.
func TestTaskTerminalsHaveTheSizeOfCrews(t *testing.T) {
	t.Parallel()
	v := startOnTerminal(t, 90, crew("--pty", "--progress=never", "--output=line", "-n0",
		`trap 'stty size <&1; stty size <&2; exit' WINCH; echo "at first $(stty size <&2)"; while :; do sleep 0.01; done`, ":::", "1"))
	v.await(t, `^at first 24 90$`)
	v.control(t, func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 70})
	})
	v.await(t, `^30 70\n30 70$`)
	status, _ := v.end(t)
	require.Zero(t, status.ExitStatus())
}
