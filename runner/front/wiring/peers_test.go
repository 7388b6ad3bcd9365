package wiring

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// peered is a row of testdata/peers.jsonl.
type peered struct {
	Why            string
	Peer           []string          // a program and its arguments
	Crew           [][]string        // argument lists of crew that do the same; nil for the arguments of the peer
	Input          string            // standard input of all programs
	Files          map[string]string // in the working directory
	Says, CrewSays string            // outputs, if there is a Why
}

// TestPeers compares crew with GNU parallel and the xargs of findutils. Because parallel is slow, only the soak
// runs it.
func TestPeers(t *testing.T) {
	t.Parallel()
	program := crewtest.Build(t, "crew")
	crewtest.Examples(t, "testdata/peers.jsonl", func(t *testing.T, p peered) {
		there := p.Peer[0] == "xargs" || crewtest.Soaking()
		if p.Crew == nil {
			p.Crew = [][]string{p.Peer[1:]}
		}
		if _, err := exec.LookPath(p.Peer[0]); err != nil || !there && p.Why == "" {
			t.Skip("it is not there, or for the soak")
		}
		t.Parallel()
		if there {
			says := p.run(t, p.Peer...)
			if p.Why == "" {
				p.CrewSays = says
			} else {
				require.Equal(t, p.Says, says)
			}
		}
		for _, args := range p.Crew {
			require.Equal(t, p.CrewSays, p.run(t, slices.Concat([]string{program}, args)...), "%s: %q and %q", p.Why, p.Peer, args)
		}
	})
}

// run runs a program in a new directory, and returns its output and, if that is not 0, its exit status.
func (p *peered) run(t *testing.T, args ...string) string {
	dir := t.TempDir()
	for name, text := range p.Files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), latin(text), 0o600))
	}
	for i := range args {
		args[i] = string(latin(args[i]))
	}
	cmd := exec.Command(args[0], args[1:]...)
	if args[0] == "parallel" {
		cmd.Args = slices.Insert(cmd.Args, 1, "--will-cite")
	}
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Dir = bytes.NewReader(latin(p.Input)), &out, dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TMPDIR=" + dir, "LC_ALL=C", "PARALLEL_SHELL=/bin/sh"}
	_ = cmd.Run()
	if status := cmd.ProcessState.ExitCode(); status != 0 {
		fmt.Fprintf(&out, " %d", status)
	}
	var text []rune
	for _, c := range out.Bytes() {
		text = append(text, rune(c))
	}
	return string(text)
}

// latin returns the bytes whose values are the characters of a text.
func latin(text string) (bytes []byte) {
	for _, r := range text {
		bytes = append(bytes, byte(r))
	}
	return bytes
}
