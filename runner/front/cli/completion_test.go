package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

func TestComplete(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	require.NoError(t, os.Mkdir(home+"/.ssh", 0o700))
	crewtest.WriteFile(t, home+"/.ssh/config", "Host web we-* !web9\n\tUser ada\nhost=web\n", 0o600)
	crewtest.WriteFile(t, home+"/.ssh/known_hosts", "web2,10.0.0.1 ssh-rsa AAAA\n|1|we= ssh-rsa AAAA\n[web3]:22 ssh-rsa AAAA\n", 0o600)
	rows := crewtest.ReadFile(t, "testdata/completion.txt") // pairs of a typed line and the answer to bash
	for row := range strings.Lines(rows) {
		line, want, _ := strings.Cut(strings.TrimSuffix(row, "\n"), " => ")
		x := complete("bash", strings.Split(line, " "))
		var runs []Candidate
		if x.Runs {
			runs = []Candidate{{"t-run", "crew serve"}, {"other", ""}}
		}
		if x.Tasks {
			runs = []Candidate{{"1", ""}, {"2" + x.Run, ""}}
		}
		require.Equal(t, want, strings.Join(strings.Split(strings.TrimSpace(x.Text(runs)), "\n"), " "), line)
	}
}
