package crewtest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// SSHD is an ssh server on the loopback device, and what reaches it.
type SSHD struct {
	Home string // of who logs in
	SSH  string // an ssh that knows the hosts web1, web2, away and closed
	Path string // a PATH that has it
	Port string
}

// A bash whose SHLVL is 0, which sshd starts, reads the start-up files of who runs the tests.
const sshdConfig = `HostKey %[1]s/host
AuthorizedKeysFile %[1]s/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
SetEnv SHLVL=1
ForceCommand %[1]s/login
`

// What ssh prefers costs several times the processor time of these.
const sshConfig = `Host closed
 Port 1
Host away
 HostName host.invalid
Host web* away closed
 HostName 127.0.0.1
 Port %[2]s
 User %[3]s
 IdentityFile %[1]s/user
 IdentitiesOnly yes
 Ciphers aes128-gcm@openssh.com
 KexAlgorithms curve25519-sha256
 UserKnownHostsFile %[1]s/known
 StrictHostKeyChecking accept-new
 LogLevel ERROR
`

const sshLogin = `#!/bin/sh
echo 'a noisy start-up file'
HOME='%s'
export HOME
PATH="$HOME/bin:$PATH"
cd
XDG_RUNTIME_DIR="$HOME"
export XDG_RUNTIME_DIR
exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"
`

// StartSSHD starts a server that runs until the end of the test. It skips the test where
// OpenSSH is missing.
func StartSSHD(t testing.TB) SSHD {
	t.Helper()
	server, err := exec.LookPath("sshd")
	if err != nil {
		server = "/usr/sbin/sshd"
	}
	for _, program := range []string{server, "ssh", "ssh-keygen"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no openssh: %v", err)
		}
	}
	if os.Getuid() == 0 {
		_ = os.MkdirAll("/run/sshd", 0o755) // sshd wants to be locked up there
	}
	// The port is taken from the start: others that look for one meanwhile get another.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dir, port := t.TempDir(), fmt.Sprint(listener.Addr().(*net.TCPAddr).Port)
	bin := filepath.Join(dir, "bin")
	s := SSHD{Port: port, Home: filepath.Join(dir, "the home of $(who)"), SSH: filepath.Join(bin, "ssh"), Path: bin + ":" + os.Getenv("PATH")}
	s.configure(t, dir, port)
	var log Output
	t.Cleanup(func() {
		_ = listener.Close()
		if t.Failed() {
			t.Logf("sshd said: %s", log.String())
		}
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			cmd := exec.Command(server, "-i", "-e", "-f", filepath.Join(dir, "sshd_config"))
			file, _ := conn.(*net.TCPConn).File()
			cmd.Stdin, cmd.Stdout, cmd.Stderr = file, file, &log
			if err := cmd.Start(); err != nil {
				fmt.Fprintln(&log, err)
			} else {
				go func() { _ = cmd.Wait() }()
			}
			file.Close()
			conn.Close()
		}
	}()
	return s
}

// configure makes the files of the server and of ssh in dir.
func (s SSHD) configure(t testing.TB, dir, port string) {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	ssh, err := exec.LookPath("ssh")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{s.Home, filepath.Join(dir, "bin")} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	WriteFile(t, filepath.Join(dir, "login"), fmt.Sprintf(sshLogin, s.Home), 0o755)
	WriteFile(t, s.SSH, fmt.Sprintf("#!/bin/sh\nexec %s -F %s/ssh_config \"$@\"\n", ssh, dir), 0o755)
	WriteFile(t, filepath.Join(dir, "sshd_config"), fmt.Sprintf(sshdConfig, dir), 0o600)
	WriteFile(t, filepath.Join(dir, "ssh_config"), fmt.Sprintf(sshConfig, dir, port, me.Username), 0o600)
}

// Link is a port that leads to a server. It counts what goes there, and can hold it, or be slow.
type Link struct {
	Port string
	rate int64 // bytes a second in each direction, of all connections together; 0 for any

	mu   sync.Mutex
	more *sync.Cond // limit or held has changed
	sent int64
	held bool
	stop int64 // no more bytes than that go there; 0 for any
}

// Link returns a port that leads to the server until the end of the test.
func (s SSHD) Link(t testing.TB) *Link { return NewLink(t, "127.0.0.1:"+s.Port, 0) }

// NewLink returns a port that leads to an address until the end of the test, and carries so many
// bytes a second in each direction, or any number if rate is 0.
func NewLink(t testing.TB, address string, rate int64) *Link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Link{Port: fmt.Sprint(listener.Addr().(*net.TCPAddr).Port), rate: rate}
	l.more = sync.NewCond(&l.mu)
	var there, back sync.Mutex
	t.Cleanup(func() {
		listener.Close()
		l.Hold(0)
	})
	go func() {
		for {
			here, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", address)
			if err != nil {
				here.Close()
				continue
			}
			go l.carry(server, here, &there, l.pass)
			go l.carry(here, server, &back, func(int) {})
		}
	}()
	return l
}

// carry brings one end what comes from the other, if pass lets it. The connections take turns.
func (l *Link) carry(to, from net.Conn, turn sync.Locker, pass func(n int)) {
	defer to.Close()
	buf := make([]byte, 32<<10)
	if l.rate > 0 {
		buf = buf[:4<<10]
	}
	for {
		n, err := from.Read(buf)
		pass(n)
		if l.rate > 0 {
			turn.Lock()
			time.Sleep(time.Duration(n) * time.Second / time.Duration(l.rate))
			turn.Unlock()
		}
		if _, wrong := to.Write(buf[:n]); err != nil || wrong != nil {
			return
		}
	}
}

// pass counts bytes that go to the server, and waits until they may.
func (l *Link) pass(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.stop != 0 && l.sent+int64(n) > l.stop {
		l.held = true
		l.more.Wait()
	}
	l.sent += int64(n)
}

// Hold lets no more bytes through than these, of all connections together; 0 is for any.
func (l *Link) Hold(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop, l.held = bytes, false
	l.more.Broadcast()
}

// Held reports whether bytes wait for another Hold.
func (l *Link) Held() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// Sent returns how many bytes have gone through.
func (l *Link) Sent() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}
