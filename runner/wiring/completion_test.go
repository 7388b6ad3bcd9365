package wiring

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/cli"
	"crew/runner/crewtest"
	"crew/runner/task"
)

// complete runs the shell with the completion script in a file named by its
// first argument, in an empty directory that holds one file, and returns what
// it prints.
func complete(t *testing.T, shell string, args ...string) string {
	t.Helper()
	path, err := exec.LookPath(shell)
	if err != nil {
		t.Skipf("no %s here", shell)
	}
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	o, err := cli.Parse([]string{"crew", "--completion", shell}, func(string) string { return "" })
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(script, []byte(o.Print), 0o600))
	// The script asks the crew in PATH.
	asked := "#!/bin/sh\nCREW_TEST_MAIN=1 exec " + task.Quote(os.Args[0]) + ` "$@"` + "\n"
	crewtest.WriteFile(t, filepath.Join(dir, "crew"), asked, 0o700)
	here := filepath.Join(dir, "here")
	require.NoError(t, os.Mkdir(here, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(here, "file-of-mine"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(here, "dir-of-mine"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".ssh"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".ssh", "config"), []byte("Host host-of-mine\n"), 0o600))
	cmd := exec.Command(path, append(args, script)...)
	cmd.Dir = here
	cmd.Env = append(os.Environ(), "HOME="+dir, "ZDOTDIR="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir, "TERM=dumb", "PATH="+dir+":"+os.Getenv("PATH"))
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "stderr: %s", &errs)
	require.Empty(t, errs.String())
	return out.String()
}

// completers drive a shell: its arguments before the name of the completion script, with
// the line to complete at LINE, and what takes the words offered out of what it prints.
var completers = map[string]struct {
	args  []string
	needs string // another program; "" for none
	words *regexp.Regexp
}{
	// COMP_WORDS is made as readline makes it, which cuts at = too.
	"bash": {[]string{"--norc", "-c", `source "$2"
line=${1//=/ = }
COMP_WORDS=($line)
[[ $1 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_crew
printf '%s\n' "${COMPREPLY[@]}"`, "bash", "LINE"}, "", regexp.MustCompile(`(?m)^(.*)$`)},
	// It describes commands with awk.
	"fish": {[]string{"-c", `source $argv[2]; complete -C $argv[1]`, "LINE"}, "awk", regexp.MustCompile(`(?m)^(?:[^\t\n=]*=)?([^\t\n]*)`)},
	// zsh completes only at a terminal, so the script drives another zsh through
	// one of its own, in which compadd tells what it is given.
	"zsh": {[]string{"-f", "-c", `zmodload zsh/zpty || exit 1
zpty z zsh -f -i
send() { zpty -w z "$1" }
send "PS1= PS2= RPS1= ; unsetopt zle_bracketed_paste 2>/dev/null; autoload -U compinit; compinit -u -D; source ${(q)2}"
send 'show() { local -a hits; compadd() { builtin compadd -O hits "$@"; (( $#hits )) && print -rl -- "<"$^hits">"; builtin compadd "$@" }; _main_complete; print "<<end>>"; compstate[insert]=; compstate[list]= }'
send "zle -C show complete-word show; bindkey '^I' show; print '<<re''ady>>'"
zpty -r z got '*<<ready>>*'
zpty -w -n z "$1"$'\t'
zpty -r z got '*<<end>>*'
print -r -- "$got"
zpty -d z`, "zsh", "LINE"}, "", regexp.MustCompile(`(?m)^[^<\n]*<([^>\n]*?)=?>`)},
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	type row struct{ Line, Offers, Not string }
	for shell, how := range completers {
		if _, err := exec.LookPath(cmp.Or(how.needs, shell)); err != nil {
			t.Log(err)
			continue
		}
		t.Run(shell, func(t *testing.T) {
			crewtest.Examples(t, "testdata/completions.jsonl", func(t *testing.T, c row) {
				t.Parallel()
				args := slices.Clone(how.args)
				args[slices.Index(args, "LINE")] = c.Line
				var offers []string
				for _, m := range how.words.FindAllStringSubmatch(complete(t, shell, args...), -1) {
					offers = append(offers, strings.TrimSuffix(m[1], "/"))
				}
				require.True(t, c.Offers == "" || slices.Contains(offers, c.Offers), "%q", offers)
				for _, o := range offers {
					require.False(t, o == c.Not || c.Not == "--" && strings.HasPrefix(o, "--"), o)
				}
			})
		})
	}
}
