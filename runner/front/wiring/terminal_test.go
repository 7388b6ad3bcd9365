package wiring

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"

	"crew/runner/crewtest"
)

// TestTerminal plays the stories in testdata/terminal/*.txt, in which a person uses crew at a terminal. The files
// at the end of a story are created in its directory. The lines of a story are:
//
//	on WIDTH COMMAND   run a shell command on a new terminal of this width, $TTY
//	sees REGEX         wait until the output after the last match matches
//	never REGEX        check that nothing shown since "on" matches
//	type TEXT          type a text, with escapes as in Go
//	do COMMAND         run another command in the directory; it must succeed
//	hangup             close the window
//	ends END           wait for the end: an exit status, or the name of a signal
//
// crew and crew-top are built as users build them.
func TestTerminal(t *testing.T) {
	t.Parallel()
	crewtest.Build(t, "crew/runner/steer/control/crew-top")
	programs := filepath.Dir(crewtest.Build(t, "crew"))
	stories, err := filepath.Glob("testdata/terminal/*.txt")
	require.NoError(t, err)
	for _, path := range stories {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			story, err := txtar.ParseFile(path)
			require.NoError(t, err)
			s := &sitting{t: t, dir: t.TempDir()}
			s.env = append(os.Environ(), "PATH="+programs+":"+os.Getenv("PATH"), "TERM=xterm-256color", "LC_ALL=C.UTF-8", "PS1=$ ", "HISTFILE=",
				"HOME=", "XDG_STATE_HOME=", "XDG_RUNTIME_DIR="+crewtest.ShortDir(t))
			for _, f := range story.Files {
				crewtest.WriteFile(t, filepath.Join(s.dir, f.Name), string(f.Data), 0o600)
			}
			for line := range strings.Lines(string(story.Comment)) {
				if verb, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " "); verb != "" && verb[0] != '#' {
					s.plays(verb, rest)
				}
			}
		})
	}
}

// sitting is a session at a terminal.
type sitting struct {
	t       *testing.T
	dir     string
	env     []string
	file    *os.File // the other end of the terminal
	program *crewtest.Process
	all     *crewtest.Output // everything that was written to the terminal
	read    chan bool        // closed when no more will be written
	told    int              // offset in shown after the last match
}

// shown returns the output since the terminal was opened.
func (s *sitting) shown() string { return strings.ReplaceAll(s.all.String(), "\r\n", "\n") }

// plays carries out a line of a story.
func (s *sitting) plays(verb, rest string) {
	t := s.t
	t.Logf("%s %s", verb, rest)
	switch verb {
	case "on":
		s.begins(rest)
	case "sees":
		re := regexp.MustCompile("(?m)" + rest)
		later := func() string { return s.shown()[s.told:] }
		crewtest.Until(t, func() bool { return re.MatchString(later()) }, "%s:\n%q", rest, crewtest.Seen(later))
		s.told += re.FindStringIndex(later())[1]
	case "never":
		require.NotRegexp(t, "(?m)"+rest, s.shown())
	case "type":
		text, err := strconv.Unquote(`"` + strings.ReplaceAll(rest, `"`, `\"`) + `"`)
		require.NoError(t, err)
		_, err = s.file.WriteString(text)
		require.NoError(t, err)
	case "do":
		cmd := exec.Command("/bin/sh", "-c", rest)
		cmd.Dir, cmd.Env = s.dir, s.env
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	case "hangup":
		require.NoError(t, s.file.Close())
	case "ends":
		ws := s.program.Wait()
		<-s.read
		if ws.Signaled() {
			require.Equal(t, "SIG"+rest, unix.SignalName(ws.Signal()))
		} else {
			require.Equal(t, rest, fmt.Sprint(ws.ExitStatus()))
		}
	default:
		t.Fatalf("a story has no verb %s", verb)
	}
}

// begins starts a program on a new terminal.
func (s *sitting) begins(line string) {
	width, command, _ := strings.Cut(line, " ")
	columns, err := strconv.ParseUint(width, 10, 16)
	require.NoError(s.t, err)
	blocks, theirs, err := pty.Open()
	require.NoError(s.t, err)
	defer blocks.Close()
	defer theirs.Close()
	require.NoError(s.t, pty.Setsize(theirs, &pty.Winsize{Rows: 24, Cols: uint16(columns)}))
	fd, err := unix.FcntlInt(blocks.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(s.t, err)
	require.NoError(s.t, unix.SetNonblock(fd, true)) // so that Close unblocks the reader
	ours := os.NewFile(uintptr(fd), "terminal")
	cmd := exec.Command("/bin/sh", "-c", "exec "+command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirs, theirs, theirs
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	cmd.Env = slices.Clip(s.env)
	s.program = crewtest.New(s.t, cmd)
	cmd.Dir = s.dir
	s.program.Start()
	all, read := &crewtest.Output{}, make(chan bool)
	s.file, s.all, s.read, s.told = ours, all, read, 0
	s.env = append(s.env, "TTY="+theirs.Name())
	go func() {
		defer close(read)
		_, _ = io.Copy(all, ours)
	}()
	s.t.Cleanup(func() { ours.Close(); <-read })
}
