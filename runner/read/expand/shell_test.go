package expand

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crew/runner/crewtest"

	"github.com/stretchr/testify/require"
)

// oracle is a directory with a program p that prints its arguments, each followed by a NUL. Commands run in
// it, and it is an error if they leave any other file there.
type oracle struct {
	dir    string
	path   string // directories of other programs than p; "" is PATH
	shells []string
}

func newOracle(t testing.TB) *oracle {
	t.Helper()
	o := &oracle{dir: t.TempDir()}
	crewtest.WriteFile(t, filepath.Join(o.dir, "p"), "#!/bin/sh\n[ $# -eq 0 ] || printf '%s\\0' \"$@\"\n", 0o755)
	o.shells = installedShells()
	return o
}

// installedShells returns the value of --shell for each shell that values are tried in.
func installedShells() []string {
	var list []string
	for _, s := range []string{"/bin/sh", "dash", "bash", "busybox sh", "/usr/bin/env bash"} {
		if _, err := exec.LookPath(strings.Fields(s)[0]); err == nil {
			list = append(list, s)
		}
	}
	return list
}

// run runs a command and returns the arguments that p has received.
func (o *oracle) run(t testing.TB, argv []string) []string {
	t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = o.dir
	cmd.Env = []string{"PATH=" + o.dir + ":" + cmp.Or(o.path, os.Getenv("PATH")), "LC_ALL=C"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%q: %s", argv, stderr.String())
	files, err := os.ReadDir(o.dir)
	require.NoError(t, err)
	require.Len(t, files, 1, "%q left something behind", argv)
	if len(out) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// contexts are scripts that run p, with the arguments that p must receive.
var contexts, _ = crewtest.Rows[struct {
	Script, Want string
	Bash         bool // only bash can parse it
}]("testdata/contexts.txt")

// awkward are values that have broken some form of quoting.
var awkward = quotedLines("testdata/awkward.txt")

// wanted returns the arguments that p must receive.
func wanted(want, value string) []string {
	w := strings.Split(want, "|")
	for i := range w {
		w[i] = strings.NewReplacer("@", value, "+", "|").Replace(w[i])
	}
	return w
}

// trial is a command for a shell, and the arguments that p must receive.
type trial struct {
	argv, want []string
	about      string
}

// trials returns a trial of a script with a value for every shell, except shells for which the script
// is refused.
func (o *oracle) trials(t testing.TB, script, want, value string, bash bool) []trial {
	t.Helper()
	var list []trial
	for _, shell := range o.shells {
		if bash && shell != "bash" && shell != "/usr/bin/env bash" {
			continue
		}
		cfg := Config{Words: []string{script}}
		if shell != "/bin/sh" {
			cfg.Shell = shell
		}
		tm, err := New(cfg)
		if slices.Contains([]string{"/bin/sh", "bash"}, shell) {
			require.NoError(t, err, script)
		} else if err != nil {
			continue
		}
		argv := tm.Argv(Values{Records: [][]string{{value}}, Seq: 7})
		list = append(list, trial{argv, wanted(want, value), fmt.Sprintf("%s: %s with %q", shell, script, value)})
	}
	return list
}

// check runs each trial as crew would.
func (o *oracle) check(t testing.TB, list []trial) {
	t.Helper()
	for _, tr := range list {
		require.Equal(t, tr.want, o.run(t, tr.argv), "%s: %q", tr.about, tr.argv[len(tr.argv)-1])
	}
}

// together is a script that evaluates each of its arguments in a subshell, where p is a function that does
// the same as the program. It reports how each argument ended.
const together = `p() { [ $# -eq 0 ] || printf '%s\0' "$@"; }
while [ $# -gt 0 ]; do
	(oracle=$1; shift $#; eval "$oracle")
	printf '%s\0' "$?" ` + over + `
	shift
done`

const over = ":over:"

// scriptAt returns the index of the script in a command.
func scriptAt(argv []string) int { return 1 + slices.Index(argv, "-c") }

// inOne returns one script that does the same as a command made of a script and its arguments.
func inOne(argv []string) string {
	n := scriptAt(argv)
	if len(argv) == n+1 {
		return argv[n]
	}
	set := "set --"
	for _, w := range argv[n+2:] {
		set += " '" + escape(w) + "'"
	}
	return set + "; " + argv[n]
}

// checkTogether is like check, but runs only a few processes of each shell, which takes a fifth of
// the time. It runs failed trials again alone, to find out which they are.
func (o *oracle) checkTogether(t testing.TB, list []trial) {
	t.Helper()
	byShell := map[string][]trial{}
	for _, tr := range list {
		shell := strings.Join(tr.argv[:scriptAt(tr.argv)], " ")
		byShell[shell] = append(byShell[shell], tr)
	}
	for shell, all := range byShell {
		for list := range slices.Chunk(all, 200) {
			argv := append(strings.Fields(shell), together, "sh")
			var want []string
			for _, tr := range list {
				argv = append(argv, inOne(tr.argv))
				want = append(append(want, tr.want...), "0", over)
			}
			if got := o.run(t, argv); !slices.Equal(want, got) {
				o.check(t, list)
				require.Equal(t, want, got, "%s differs where scripts run together", shell)
			}
		}
	}
}

// TestShellContexts passes values through all shells in all contexts: the awkward ones, and random
// combinations of their bytes.
func TestShellContexts(t *testing.T) {
	o, r := newOracle(t), crewtest.Rand(t, 0)
	var list []trial
	for i, c := range contexts {
		first := len(list)
		random := awkward[r.IntN(len(awkward))] + string([]byte{byte(1 + r.IntN(255))}) + awkward[r.IntN(len(awkward))]
		for j, v := range append(awkward, random) {
			// A long run tries every context with every value in every shell, other runs a sixteenth of
			// these pairs in every other shell.
			if (i+j)%16 != 0 && v != random && !crewtest.Soaking() {
				continue
			}
			for k, tr := range o.trials(t, c.Script, c.Want, v, c.Bash) {
				if (i+j/16+k)%2 == 0 || crewtest.Soaking() {
					list = append(list, tr)
				}
			}
		}
		if len(list) > first && (i%6 == 0 || crewtest.Soaking()) {
			o.check(t, list[first:first+1])
		}
	}
	o.checkTogether(t, list)
}

// grammar lists, for each symbol, texts that a script may have in its place and their expansions.
var grammar = func() map[string][][2]string {
	byName := map[string][][2]string{}
	rows, _ := crewtest.Rows[[3]string]("testdata/grammar.txt")
	for _, row := range rows {
		byName[row[0]] = append(byName[row[0]], [2]string{row[1], row[2]})
	}
	return byName
}()

// derive returns a random text for a symbol, and its expansion.
func derive(r *rand.Rand, symbol string, depth int) (text, is string) {
	switch symbol {
	case "«word»", "«quoted»":
		of := map[string]string{"«word»": "«part»", "«quoted»": "«text»"}[symbol]
		for range 1 + r.IntN(3) {
			t, s := derive(r, of, depth)
			text, is = text+t, is+s
		}
		return text, is
	}
	list := grammar[symbol]
	if depth <= 0 && len(list) > 6 {
		list = list[:len(list)/2]
	}
	p := list[r.IntN(len(list))]
	text, is = p[0], p[1]
	for _, symbol := range []string{"«word»", "«quoted»", "«subst»", "«document»"} {
		if strings.Contains(text, symbol) {
			t, s := derive(r, symbol, depth-1)
			text, is = strings.ReplaceAll(text, symbol, t), strings.ReplaceAll(is, symbol, s)
		}
	}
	if strings.Count(text, "<<E") > 1 || strings.Count(text, "`") > 2 { // bash fails to parse some nested documents
		return derive(r, symbol, depth)
	}
	return text, is
}

// TestShellGrammar looks for nested contexts in which a value becomes syntax.
func TestShellGrammar(t *testing.T) {
	o := newOracle(t)
	r, rounds, refused := crewtest.Rand(t, 0), crewtest.Rounds(150), 0
	var list []trial
	for range rounds {
		script, is := derive(r, "«word»", 4)
		script, is = "e= n=1; p x"+script, "x"+is
		if _, err := New(Config{Words: []string{script}}); err != nil {
			require.NotContains(t, err.Error(), "syntax error", script)
			refused++
			continue
		}
		value := awkward[r.IntN(len(awkward))]
		for _, shell := range []string{"", "bash"} {
			argv := must(t, Config{Words: []string{script}, Shell: shell}).Argv(Values{Records: [][]string{{value}}})
			list = append(list, trial{argv, []string{strings.ReplaceAll(is, "@", value)}, fmt.Sprintf("%s: %s with %q", shell, script, value)})
		}
	}
	for part := range slices.Chunk(list, 100) {
		o.checkTogether(t, part)
	}
	require.Less(t, refused, rounds/3)
}
