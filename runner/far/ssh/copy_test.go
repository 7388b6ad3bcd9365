package ssh

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// remoteHost is a host without crew-engine, and the link to it.
type remoteHost struct {
	t       *testing.T
	s       crewtest.SSHD
	link    *crewtest.Link
	program *program
	dir     string // where the copy goes
}

func newRemoteHost(t *testing.T) remoteHost {
	s := crewtest.StartSSHD(t)
	p, err := (&programs{}).get("")
	require.NoError(t, err)
	return remoteHost{t: t, s: s, link: s.Link(t), program: p, dir: filepath.Join(s.Home, ".cache/crew", p.hash)}
}

func (r remoteHost) start(targets ...string) (*Hosts, *crewtest.Output, chan net.Conn) {
	var hosts []Host
	for _, target := range targets {
		hosts = append(hosts, Host{Target: target, Port: r.link.Port})
	}
	return startAll(r.t, r.s.SSH, hosts...)
}

// waitHeld waits until the link holds the rest of a copy.
func (r remoteHost) waitHeld(notices *crewtest.Output) {
	r.t.Helper()
	crewtest.Until(r.t, r.link.Held, "a copy: %s", notices)
}

// checkCopiedOnce asserts that the program was copied exactly once.
func (r remoteHost) checkCopiedOnce() {
	r.t.Helper()
	r.checkCopied()
	require.Less(r.t, r.link.Sent(), r.program.size*3/2)
}

// checkCopied asserts that the program was copied completely, and that no parts are left.
func (r remoteHost) checkCopied() {
	r.t.Helper()
	is := crewtest.ReadFile(r.t, filepath.Join(r.dir, programName))
	require.True(r.t, crewtest.ReadFile(r.t, r.program.file.Name()) == is)
	left, err := os.ReadDir(r.dir)
	require.NoError(r.t, err)
	require.Len(r.t, left, 1)
}

// serveWorker accepts the connection of a worker and answers it.
func serveWorker(t *testing.T, conns chan net.Conn, notices *crewtest.Output) {
	t.Helper()
	conn := crewtest.Receive(t, conns, "a connection")
	_, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err, notices)
	_, err = fmt.Fprintln(conn, "it speaks")
	require.NoError(t, err)
}

// A run ends before its copy does. A process that still writes to the part does no harm.
func TestCopyResumed(t *testing.T) {
	t.Parallel()
	r := newRemoteHost(t)
	r.link.Hold(r.program.size / 2)
	p, notices, _ := r.start("web1")
	r.waitHeld(notices)
	crewtest.Until(t, func() bool {
		parts, _ := filepath.Glob(filepath.Join(r.dir, "part.*"))
		info, err := os.Stat(strings.Join(parts, ""))
		return err == nil && info.Size() > 1<<20
	}, "a part of the copy there")
	p.Close()
	require.Equal(t, fmt.Sprintf("web1: copying crew-engine there: 0 of %d MiB\n", r.program.size>>20), notices.String())
	r.link.Hold(0)
	p, notices, conns := r.start("web1")
	serveWorker(t, conns, notices)
	crewtest.Until(t, func() bool { return strings.Contains(notices.String(), "it speaks") }, "words: %s", notices)
	p.Close()
	require.Regexp(t, `^web1: copying crew-engine there: [1-9]\d* of \d+ MiB\nweb1: it speaks\n$`, notices)
	r.checkCopiedOnce()
}

// Two runs use two names of the same machine each.
func TestCopyTwice(t *testing.T) {
	t.Parallel()
	r := newRemoteHost(t)
	p, notices, conns := r.start("web1", "web2")
	q, also, more := r.start("web1", "web2")
	for range 2 {
		serveWorker(t, conns, notices)
		serveWorker(t, more, also)
	}
	p.Close()
	q.Close()
	require.NotContains(t, notices.String()+also.String(), "cannot copy")
	r.checkCopied()
}

// The part on the host is not of crew-engine.
func TestCopyDamaged(t *testing.T) {
	t.Parallel()
	r := newRemoteHost(t)
	require.NoError(t, os.MkdirAll(r.dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "part.x"), make([]byte, r.program.size-1000), 0o600))
	p, notices, conns := r.start("web1")
	serveWorker(t, conns, notices)
	p.Close()
	require.Contains(t, notices.String(), fmt.Sprintf("web1: copying crew-engine there: %d of %d MiB\n"+
		"web1: cannot copy crew-engine there (the copy was damaged): trying again\n", (r.program.size-1000)>>20, r.program.size>>20))
	r.checkCopiedOnce()
}

// At first there is no room for the copy, or the checksum is wrong.
func TestCopyFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ program, text, why string }{
		{"head", "trap '' XFSZ\nulimit -f 4000\nexec /usr/bin/head \"$@\"", ".*: File too large"},
		{"sha256sum", "echo another sum", "the copy was damaged"},
	} {
		t.Run(c.program, func(t *testing.T) {
			t.Parallel()
			r := newRemoteHost(t)
			fails := script(t, r.s, "bin/"+c.program, c.text)
			p, notices, conns := r.start("web1")
			p.mu.Lock()
			h := p.hosts[0]
			p.mu.Unlock()
			crewtest.Until(t, func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return strings.Contains(notices.String(), "cannot") && h.stage == starting
			}, "a notice")
			require.Regexp(t, `\nweb1: cannot copy crew-engine there \(`+c.why+`\): trying again\n$`, notices)
			require.NoError(t, os.Remove(fails))
			serveWorker(t, conns, notices)
			p.Close()
			r.checkCopied()
		})
	}
}

// otherMachine returns the names of uname -m and of Go for the i-th kind of machine other than p's.
func otherMachine(p *program, i int) (machine, arch string) {
	kinds := slices.DeleteFunc([][2]string{{"x86_64", "amd64"}, {"aarch64", "arm64"}, {"riscv64", "riscv64"}}, func(kind [2]string) bool {
		return p.platform == "Linux "+kind[0]
	})
	return kinds[i][0], kinds[i][1]
}

// Hosts of other kinds get the programs that lie beside this one.
func TestCopyOther(t *testing.T) {
	t.Parallel()
	r := newRemoteHost(t)
	self, err := os.Executable()
	require.NoError(t, err)
	// A small program with the behaviour of worker is copied faster.
	const text = "#!/bin/sh\necho $$ \"$@\"; read -r answer; echo \"crew: $answer\" >&2; cat >/dev/null\n# "
	machine, arch := otherMachine(r.program, 0)
	for uname, name := range map[string]string{
		"Linux " + machine: "linux-" + arch, "Darwin arm64": "darwin-arm64", "Darwin x86_64": "darwin-amd64", "FreeBSD amd64": "freebsd-amd64",
	} {
		other := filepath.Join(filepath.Dir(self), "crew-engine-"+name)
		crewtest.WriteFile(t, other, text+name, 0o700)
		t.Cleanup(func() { _ = os.Remove(other) })
		script(t, r.s, "bin/uname", "echo "+uname)
		for range 2 {
			p, notices, conns := r.start("web1")
			serveWorker(t, conns, notices)
			p.Close()
		}
		hash := fmt.Sprintf("%x", sha256.Sum256([]byte(text+name)))
		require.FileExists(t, filepath.Join(r.s.Home, ".cache/crew", hash, programName))
	}
}
