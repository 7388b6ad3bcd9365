package engine

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/cli"
	"crew/runner/crewtest"
	"crew/runner/wiring"
)

// sshd is a server on the loopback device, and what reaches it.
type sshd struct {
	t    *testing.T
	home string // of who logs in
	path string // PATH, in which ssh knows the hosts web1, web2, away and closed
}

// newSSHD starts a server. It skips the test where there is none.
func newSSHD(t *testing.T) *sshd {
	server, err := exec.LookPath("sshd")
	if err != nil {
		server = "/usr/sbin/sshd"
	}
	for _, p := range []string{server, "ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("no openssh: %v", err)
		}
	}
	if os.Getuid() == 0 {
		_ = os.MkdirAll("/run/sshd", 0o755) // sshd wants to be locked up there
	}
	me, err := user.Current()
	require.NoError(t, err)
	dir := t.TempDir()
	s := &sshd{t: t, home: filepath.Join(dir, "the home of $(who)")}
	require.NoError(t, os.Mkdir(s.home, 0o700))
	for _, name := range []string{"host", "user"} {
		out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o777))
		require.NoError(t, os.WriteFile(file, []byte(strings.ReplaceAll(text, "@@", dir)), mode))
		return file
	}
	port, closed := freePort(t), freePort(t)
	login := write("login", fmt.Sprintf("#!/bin/sh\necho 'a noisy start-up file'\nHOME='%s'\nexport HOME\nPATH=\"$HOME/bin:$PATH\"\ncd\nunset XDG_RUNTIME_DIR\nexec /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"\n", s.home), 0o755)
	config := write("sshd_config", fmt.Sprintf("ListenAddress 127.0.0.1\nPort %d\nHostKey @@/host\nAuthorizedKeysFile @@/user.pub\n"+
		"PidFile none\nStrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nForceCommand %s\n", port, login), 0o600)
	hosts := fmt.Sprintf("Host web* away closed\n HostName 127.0.0.1\n Port %d\n User %s\n IdentityFile @@/user\n IdentitiesOnly yes\n"+
		" UserKnownHostsFile @@/known\n StrictHostKeyChecking accept-new\n LogLevel ERROR\n", port, me.Username)
	hosts = fmt.Sprintf("Host closed\n Port %d\nHost away\n HostName host.invalid\n", closed) + hosts
	ssh, err := exec.LookPath("ssh")
	require.NoError(t, err)
	write("bin/ssh", fmt.Sprintf("#!/bin/sh\nexec %s -F %s \"$@\"\n", ssh, write("ssh_config", hosts, 0o600)), 0o755)
	s.path = filepath.Join(dir, "bin") + ":" + os.Getenv("PATH")

	var log bytes.Buffer
	cmd := exec.Command(server, "-D", "-e", "-f", config)
	cmd.Stderr = &log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("sshd said: %s", &log)
		}
	})
	crewtest.Until(t, func() bool {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			c.Close()
		}
		return err == nil
	}, "sshd")
	return s
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// TestHosts has workers of the queue echo, which TestMain makes, on hosts that cannot
// all be reached.
func TestHosts(t *testing.T) {
	s := newSSHD(t)
	t.Setenv("PATH", s.path)
	t.Setenv("TMPDIR", t.TempDir())
	hosts := []cli.Host{{Target: "web1", Name: "web1", Slots: 3}, {Target: "web2", Name: "web2"}, {}, {Target: "away"}, {Target: "closed"}}
	for _, installed := range []bool{false, true} {
		var said crewtest.Output
		p, err := startHosts(wiring.Submission{Place: wiring.Place{Hosts: hosts, Queue: "echo", TTL: time.Second}, Notice: func(text string) { fmt.Fprintln(&said, text) }})
		require.NoError(t, err)
		stop := sync.OnceFunc(p.close)
		defer stop()
		c, err := p.connect(nil)
		require.NoError(t, err)
		heard, err := c.nc.SubscribeSync(resultSubject("echo", "hosts"))
		require.NoError(t, err)
		pids := map[string]int{}
		for len(pids) < 3 {
			m, err := heard.NextMsg(time.Minute)
			require.NoError(t, err, &said)
			pid, args, _ := strings.Cut(string(m.Data), " ")
			require.Contains(t, args, "--allow-commands --trust "+stdioURL)
			pids[args[strings.Index(args, "never")+5:]], err = strconv.Atoi(pid)
			require.NoError(t, err)
		}
		require.Contains(t, pids, " --name web1 --jobs 3")
		require.Contains(t, pids, " --name web2")
		require.Contains(t, pids, "")
		crewtest.Until(t, func() bool {
			text := said.String()
			return strings.Count(text, "cannot reach it") == 2 && strings.Count(text, "it speaks") == 3
		}, "two hosts to fail and three to speak: %s", &said)
		c.close()
		stop()
		for _, pid := range pids {
			crewtest.Gone(t, pid)
		}
		require.Regexp(t, `(?m)^web1: it speaks$`, said.String())
		require.Regexp(t, `(?m)^this machine: stray output$`, said.String())
		require.Regexp(t, `(?m)^away: cannot reach it \(ssh: Could not resolve hostname .*\): trying again; .ssh away true. must work without a prompt$`, said.String())
		require.Regexp(t, `(?m)^closed: cannot reach it \(.* Connection refused\): trying again; .ssh closed true. must`, said.String())
		require.Equal(t, !installed, strings.Contains(said.String(), ": copying crew-engine there, "), &said)
	}
	there, err := filepath.Glob(filepath.Join(s.home, ".cache/crew/*/*"))
	require.NoError(t, err)
	require.Len(t, there, 1)
	info, err := os.Stat(there[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode())
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestHostsUnfit has hosts on which crew-engine cannot run.
func TestHostsUnfit(t *testing.T) {
	s := newSSHD(t)
	t.Setenv("PATH", s.path)
	script := func(name, text string) {
		name = filepath.Join(s.home, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
		crewtest.WriteFile(t, name, "#!/bin/sh\n"+text+"\n", 0o700)
	}
	p, err := openProgram()
	require.NoError(t, err)
	for _, c := range []struct{ name, text, want string }{
		{"bin/uname", "echo Linux sparc", "web1: crew runs on " + p.platform + " here, and that is Linux sparc: "},
		{".cache/crew/" + p.hash + "/" + engineName, "echo no such library >&2; exit 1", "web1: crew-engine does not run there (no such library): trying again; "},
	} {
		script(c.name, c.text)
		var said crewtest.Output
		p, err := startHosts(wiring.Submission{Place: wiring.Place{Hosts: []cli.Host{{Target: "web1", Name: "web1"}}, Queue: "echo", TTL: time.Second}, Notice: func(text string) { fmt.Fprintln(&said, text) }})
		require.NoError(t, err)
		crewtest.Until(t, func() bool { return said.String() != "" }, "a notice")
		p.close()
		require.True(t, strings.HasPrefix(said.String(), c.want), &said)
	}
}

func TestPrivateDir(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	require.NoError(t, os.MkdirAll(filepath.Join(tmp, dirPrefix+"killed", "jetstream"), 0o700))
	first, removeFirst, err := privateDir()
	require.NoError(t, err)
	_, removeSecond, err := privateDir()
	require.NoError(t, err)
	entries, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Len(t, entries, 2, "that of the killed run has gone")
	require.DirExists(t, first)
	removeFirst()
	removeSecond()
	entries, err = os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, entries)
}
