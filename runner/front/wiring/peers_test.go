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
	Crew           [][]string        // argument lists of crew that do the same; nil for the peer's
	Input          string            // of all
	Files          map[string]string // in their directory
	Says, CrewSays string            // if there is a Why
}

// TestPeers holds what crew does against what GNU parallel and findutils' xargs do. Since
// parallel takes long, the gate runs it for none of its rows.
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

// run runs a program in a directory of its own, and returns what it prints and, unless that
// is 0, its exit status.
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

// latin returns the bytes that the characters of a text stand for.
func latin(text string) (bytes []byte) {
	for _, r := range text {
		bytes = append(bytes, byte(r))
	}
	return bytes
}
