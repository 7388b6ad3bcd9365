package wiring

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/front/cli"
)

// completers maps shells to the program that each needs. The script testdata/complete.SHELL completes its
// arguments, which are lines, with the completion script $SCRIPT. After the words for each line, it prints a
// line "--------".
var completers = map[string]string{"bash": "bash", "zsh": "zsh", "fish": "awk"}

// TestCompletion completes lines in real shells, in a directory that holds one file and one directory.
func TestCompletion(t *testing.T) {
	t.Parallel()
	type row struct{ Line, Offers, Not string }
	rows, lines := crewtest.Rows[row]("testdata/completions.jsonl")
	programs := filepath.Dir(crewtest.Build(t, "crew")) // the scripts run the crew in PATH
	for shell, needs := range completers {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			crewtest.Needs(t, cmp.Or(needs, shell))
			dir := t.TempDir()
			o, err := cli.Parse([]string{"crew", "--completion", shell}, func(string) string { return "" })
			require.NoError(t, err)
			for name, text := range map[string]string{"script": o.Print, "here/file-of-mine": "", "here/dir-of-mine/file": "", ".ssh/config": "Host host-of-mine\n"} {
				name = filepath.Join(dir, name)
				require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
				crewtest.WriteFile(t, name, text, 0o600)
			}
			driver, err := filepath.Abs("testdata/complete." + shell)
			require.NoError(t, err)
			cmd := exec.Command(shell, driver)
			for _, row := range rows {
				cmd.Args = append(cmd.Args, row.Line)
			}
			cmd.Dir = filepath.Join(dir, "here")
			cmd.Env = append(os.Environ(), "SCRIPT="+dir+"/script", "HOME="+dir, "ZDOTDIR="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir,
				"TERM=dumb", "PATH="+programs+":"+os.Getenv("PATH"))
			var errs bytes.Buffer
			cmd.Stderr = &errs
			out, err := cmd.Output()
			require.NoError(t, err, "stderr: %s", &errs)
			require.Empty(t, errs.String())
			parts := strings.Split(string(out), "--------\n")
			require.Len(t, parts, len(rows)+1)
			for i, row := range rows {
				offers := strings.Fields(strings.ReplaceAll(parts[i], "/\n", "\n"))
				require.True(t, row.Offers == "" || slices.Contains(offers, row.Offers), "row %d: %q", lines[i], offers)
				for _, o := range offers {
					require.False(t, o == row.Not || row.Not == "--" && strings.HasPrefix(o, "--"), "row %d: %s", lines[i], o)
				}
			}
		})
	}
}
