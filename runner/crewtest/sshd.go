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

// SSHD is an ssh server on the loopback device, with the means to reach it.
type SSHD struct {
	Home string // home directory of the user who logs in
	SSH  string // an ssh program that knows the hosts web1, web2, away and closed
	Path string // a PATH that contains SSH
	Port string
}

// sshdConfig sets SHLVL because a bash whose SHLVL is 0, as started by sshd, reads the start-up files
// of the user who runs the tests.
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

// sshConfig names algorithms because those that ssh prefers cost several times the processor time.
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

// StartSSHD starts a server that runs until the end of the test. It skips the test if OpenSSH is not
// installed.
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
		_ = os.MkdirAll("/run/sshd", 0o755) // sshd needs it for privilege separation
	}
	// Listen right away, so that no other process gets the port meanwhile.
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
			t.Logf("log of sshd: %s", log.String())
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

// configure writes the files of the server and of ssh to dir.
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

// Link forwards a port to a server. It counts the bytes sent there, and can hold them or be slow.
type Link struct {
	Port string
	rate int64 // bytes per second in each direction, of all connections together; 0 for no limit

	mu   sync.Mutex
	more *sync.Cond // stop or held has changed
	sent int64
	held bool
	stop int64 // limit of sent; 0 for none
}

// Link returns a Link to the server that lasts until the end of the test.
func (s SSHD) Link(t testing.TB) *Link { return NewLink(t, "127.0.0.1:"+s.Port, 0) }

// NewLink returns a Link to address that lasts until the end of the test. It carries rate bytes per
// second in each direction; 0 means no limit.
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

// carry copies from one end to the other, calling pass before each write. Connections take turns.
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

// pass counts n bytes for the server, and waits until they may be sent.
func (l *Link) pass(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.stop != 0 && l.sent+int64(n) > l.stop {
		l.held = true
		l.more.Wait()
	}
	l.sent += int64(n)
}

// Hold limits the bytes sent to the server, over all connections; 0 means no limit. Bytes beyond the
// limit wait.
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

// Sent returns how many bytes were sent to the server.
func (l *Link) Sent() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}
