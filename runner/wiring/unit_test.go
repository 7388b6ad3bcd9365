package wiring

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestServeNotifies has crew serve tell a socket that it is ready. What is added right
// after that runs, and no task has the socket.
func TestServeNotifies(t *testing.T) {
	t.Parallel()
	sockets := map[string]string{"path": crewtest.ShortDir(t) + "/notify"}
	if runtime.GOOS == "linux" { // which alone has such
		sockets["abstract"] = "@crew-test-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	}
	for name, socket := range sockets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket})
			require.NoError(t, err)
			defer l.Close()
			dir := crewtest.ShortDir(t)
			with := func(args ...string) *exec.Cmd {
				cmd := crew(args...)
				cmd.Env = append(cmd.Env, "XDG_RUNTIME_DIR="+dir, notifySocket+"="+socket)
				return cmd
			}
			serve := with("serve", "--output=none", "-j1", `echo "{} ${NOTIFY_SOCKET-none}"`)
			require.NoError(t, serve.Start())
			t.Cleanup(func() { _ = serve.Process.Kill() })
			require.NoError(t, l.SetReadDeadline(time.Now().Add(crewtest.Patience)))
			said := make([]byte, 100)
			n, err := l.Read(said)
			require.NoError(t, err)
			require.Equal(t, "READY=1", string(said[:n]))
			out, err := with("ctl", "add", "--to", strconv.Itoa(serve.Process.Pid), "--wait", "task").Output()
			require.NoError(t, err)
			require.Equal(t, "task none\n", string(out))
			require.NoError(t, serve.Process.Signal(syscall.SIGTERM))
			require.EqualError(t, serve.Wait(), "signal: terminated")
		})
	}
}

// A unit for the system has the user's name, as root's needs none.
func TestUnitUser(t *testing.T) {
	u := unit{Options: parsed(t, "serve", "--print-unit", "cat"), program: "/opt/a $b%/crew", dir: "/", user: "ada"}
	require.Contains(t, u.text(), "\nUser=ada\nWorkingDirectory=/\nExecStart=\"/opt/a $b%%/crew\" serve cat\n")
	require.Equal(t, "root", userName(0))
	require.Equal(t, "4294967294", userName(1<<32-2))
}

// Where there is no systemd, a unit would be of no use.
func TestUnitElsewhere(t *testing.T) {
	require.NoError(t, needSystemd("linux"))
	require.EqualError(t, needSystemd("darwin"), "--print-unit is for systemd, which this system does not have: print the unit on Linux")
}

// FuzzUnitWord reads the command lines of units as systemd does.
func FuzzUnitWord(f *testing.F) {
	f.Add("a b", "")
	f.Add(`$HOME ${x} %h \n "it's"`, "\xff\n\u2028\x7f")
	f.Fuzz(func(t *testing.T, first, second string) {
		u := unit{Options: parsed(t, "serve", "--print-unit"), program: "/crew"}
		u.Serve.Line = []string{first, second}
		line := u.command()
		require.True(t, utf8.ValidString(line), "%q", line)
		require.False(t, strings.ContainsAny(line, "\r\n"), "%q", line)
		words := systemdWords(t, line)
		require.Equal(t, []string{"/crew", "serve", first, second}, words, "%s", line)
	})
}

// systemdWords splits a command line as systemd.service(5) and systemd.syntax(7) say. It
// fails the test where a word would be expanded.
func systemdWords(t *testing.T, line string) (words []string) {
	t.Helper()
	for line != "" {
		word, rest, quoted := "", "", line[0] == '"'
		if quoted {
			end := 1
			for line[end] != '"' {
				if end++; line[end-1] == '\\' {
					end++
				}
			}
			var err error
			word, err = strconv.Unquote(line[:end+1]) // it reads all escapes that systemd does, but \s
			require.NoError(t, err)
			rest = strings.TrimPrefix(line[end+1:], " ")
			require.True(t, rest == "" || line[end+1] == ' ', "%s", line)
		} else {
			word, rest, _ = strings.Cut(line, " ")
			require.NotEmpty(t, word)
			require.False(t, strings.ContainsAny(word, `"'\;`) || strings.ContainsFunc(word, func(r rune) bool { return r <= ' ' }), "%s", word)
		}
		line = rest
		for _, sign := range []string{"%", "$"} {
			require.NotContains(t, strings.ReplaceAll(word, sign+sign, ""), sign)
			word = strings.ReplaceAll(word, sign+sign, sign)
		}
		words = append(words, word)
	}
	return words
}

// systemd finds nothing wrong with the units, for the system and for users.
func TestUnitsVerify(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze to ask")
	}
	for _, line := range []string{
		"serve cat", "serve --state d --name q --halt now,fail=1 cat", "worker --engine w.json --name gpu cat",
		"engine serve --dir hub", "engine serve --dir /etc/hub", "engine dispatch --engine s.json",
	} {
		for _, manager := range []string{"--system", "--user"} {
			t.Run(line+manager, func(t *testing.T) {
				t.Parallel()
				words := append(strings.Fields(line), "--print-unit")
				if tool := strings.Fields(line)[0]; tool != "engine" {
					words = slices.Insert(strings.Fields(line), 1, "--print-unit")
				}
				u := unit{Options: parsed(t, words...), program: os.Args[0], dir: "/"}
				u.Serve.User = manager == "--user"
				file := filepath.Join(t.TempDir(), u.name())
				require.NoError(t, os.WriteFile(file, []byte(u.text()), 0o600))
				cmd := exec.Command(program, "verify", "--man=no", manager, file)
				cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir())
				said, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s\n%s", said, u.text())
				require.NotContains(t, string(said), u.name(), "%s", u.text())
			})
		}
	}
}
