package ssh

import (
	"bufio"
	"bytes"
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

// far is a host without crew-engine, and the link to it.
type far struct {
	t       *testing.T
	s       crewtest.SSHD
	link    *crewtest.Link
	program *program
	dir     string // where the copy goes
}

func newFar(t *testing.T) far {
	s := crewtest.StartSSHD(t)
	p, err := (&programs{}).get("")
	require.NoError(t, err)
	return far{t: t, s: s, link: s.Link(t), program: p, dir: filepath.Join(s.Home, ".cache/crew", p.hash)}
}

func (f far) start(targets ...string) (*Hosts, *crewtest.Output, chan net.Conn) {
	var hosts []Host
	for _, target := range targets {
		hosts = append(hosts, Host{Target: target, Port: f.link.Port})
	}
	return startAll(f.t, f.s.SSH, hosts...)
}

// holds waits until the link holds the rest of a copy.
func (f far) holds(said *crewtest.Output) {
	f.t.Helper()
	crewtest.Until(f.t, f.link.Held, "a copy: %s", said)
}

// once asserts that the program was copied exactly once.
func (f far) once() {
	f.t.Helper()
	f.whole()
	require.Less(f.t, f.link.Sent(), f.program.size*3/2)
}

// whole asserts that the program was copied completely, and that no parts are left.
func (f far) whole() {
	f.t.Helper()
	is, err := os.ReadFile(filepath.Join(f.dir, programName))
	require.NoError(f.t, err)
	want, err := os.ReadFile(f.program.file.Name())
	require.NoError(f.t, err)
	require.True(f.t, bytes.Equal(want, is))
	left, err := os.ReadDir(f.dir)
	require.NoError(f.t, err)
	require.Len(f.t, left, 1)
}

// works waits for a worker.
func works(t *testing.T, conns chan net.Conn, said *crewtest.Output) {
	t.Helper()
	conn := crewtest.Receive(t, conns, "a connection")
	_, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err, said)
	_, err = fmt.Fprintln(conn, "it speaks")
	require.NoError(t, err)
}

// A run ends before its copy does. A process that still writes to the part does no harm.
func TestCopyResumed(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	f.link.Hold(f.program.size / 2)
	p, said, _ := f.start("web1")
	f.holds(said)
	crewtest.Until(t, func() bool {
		parts, _ := filepath.Glob(filepath.Join(f.dir, "part.*"))
		info, err := os.Stat(strings.Join(parts, ""))
		return err == nil && info.Size() > 1<<20
	}, "a part of the copy there")
	p.Close()
	require.Equal(t, fmt.Sprintf("web1: copying crew-engine there: 0 of %d MiB\n", f.program.size>>20), said.String())
	f.link.Hold(0)
	p, said, conns := f.start("web1")
	works(t, conns, said)
	crewtest.Until(t, func() bool { return strings.Contains(said.String(), "it speaks") }, "words: %s", said)
	p.Close()
	require.Regexp(t, `^web1: copying crew-engine there: [1-9]\d* of \d+ MiB\nweb1: it speaks\n$`, said)
	f.once()
}

// Two runs use two names of the same machine each.
func TestCopyTwice(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	p, said, conns := f.start("web1", "web2")
	q, also, more := f.start("web1", "web2")
	for range 2 {
		works(t, conns, said)
		works(t, more, also)
	}
	p.Close()
	q.Close()
	require.NotContains(t, said.String()+also.String(), "cannot copy")
	f.whole()
}

// The part on the host is not of crew-engine.
func TestCopyDamaged(t *testing.T) {
	t.Parallel()
	f := newFar(t)
	require.NoError(t, os.MkdirAll(f.dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(f.dir, "part.x"), make([]byte, f.program.size-1000), 0o600))
	p, said, conns := f.start("web1")
	works(t, conns, said)
	p.Close()
	require.Contains(t, said.String(), fmt.Sprintf("web1: copying crew-engine there: %d of %d MiB\n"+
		"web1: cannot copy crew-engine there (the copy was damaged): trying again\n", (f.program.size-1000)>>20, f.program.size>>20))
	f.once()
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
			f := newFar(t)
			fails := filepath.Join(f.s.Home, "bin", c.program)
			require.NoError(t, os.MkdirAll(filepath.Dir(fails), 0o700))
			crewtest.WriteFile(t, fails, "#!/bin/sh\n"+c.text+"\n", 0o700)
			p, said, conns := f.start("web1")
			p.mu.Lock()
			h := p.hosts[0]
			p.mu.Unlock()
			crewtest.Until(t, func() bool {
				p.mu.Lock()
				defer p.mu.Unlock()
				return strings.Contains(said.String(), "cannot") && h.stage == starting
			}, "a notice")
			require.Regexp(t, `\nweb1: cannot copy crew-engine there \(`+c.why+`\): trying again\n$`, said)
			require.NoError(t, os.Remove(fails))
			works(t, conns, said)
			p.Close()
			f.whole()
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
	f := newFar(t)
	self, err := os.Executable()
	require.NoError(t, err)
	// A small program with the behaviour of worker is copied faster.
	const text = "#!/bin/sh\necho $$ \"$@\"; read -r answer; echo \"crew: $answer\" >&2; cat >/dev/null\n# "
	machine, arch := otherMachine(f.program, 0)
	file := filepath.Join(f.s.Home, "bin/uname")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	for uname, name := range map[string]string{
		"Linux " + machine: "linux-" + arch, "Darwin arm64": "darwin-arm64", "Darwin x86_64": "darwin-amd64", "FreeBSD amd64": "freebsd-amd64",
	} {
		other := filepath.Join(filepath.Dir(self), "crew-engine-"+name)
		require.NoError(t, os.WriteFile(other, []byte(text+name), 0o700))
		t.Cleanup(func() { _ = os.Remove(other) })
		crewtest.WriteFile(t, file, "#!/bin/sh\necho "+uname+"\n", 0o700)
		for range 2 {
			p, said, conns := f.start("web1")
			works(t, conns, said)
			p.Close()
		}
		hash := fmt.Sprintf("%x", sha256.Sum256([]byte(text+name)))
		require.FileExists(t, filepath.Join(f.s.Home, ".cache/crew", hash, programName))
	}
}
