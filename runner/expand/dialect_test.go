package expand

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// bashisms are scripts that bash understands and dash does not, or takes for
// something else.
var bashisms = map[string]string{
	"ls {} &> x":                                 "&>",
	"ls {} &>> x":                                "&>>",
	"[[ -f {} ]] && ls":                          "[[",
	"diff <(ls) {}":                              "<(",
	"ls | tee >(cat) {}":                         ">(",
	"cat <<< {}":                                 "<<<",
	"a=(1 2); ls {}":                             "arrays",
	"a[1]=x; ls {}":                              "arrays",
	"echo ${a[1]} {}":                            "arrays",
	"x+=a; ls {}":                                "+=",
	"set -o pipefail; ls {} | wc":                "set -o pipefail",
	"set -euo pipefail; ls {}":                   "set -o pipefail",
	"source {}; ls":                              "source",
	"for i in {1..3}; do ls {}; done":            "{a,b} and {1..3} without quotes",
	"mkdir -p {}/{a,b};":                         "{a,b} and {1..3} without quotes",
	"mkdir -p {}/{a,{}};":                        "{a,b} and {1..3} without quotes",
	"function f { ls; }; f {}":                   "function",
	"echo $'a\\n' {};":                           "$'",
	`echo $"a" {};`:                              `$"`,
	"x={}; echo ${x//a/b}":                       "${x/a/b}",
	"x={}; echo \"$(echo ${x/%a/b})\"":           "${x/a/b}",
	"x={}; echo ${x:1:2}":                        "${x:1:2}",
	"x={}; echo ${x: -2}":                        "${x:1:2}",
	"x={}; echo ${x^^}":                          "${x^^} and ${x,,}",
	"x={}; echo ${x@Q}":                          "${x@Q}",
	"x=y y={}; echo ${!x}":                       "${!x}",
	"[ {} == a ]; ls":                            "== in [ ]",
	"test {} == a || ls":                         "== in [ ]",
	"case {} in a) ls;& b) ls;; esac":            ";&",
	"case {} in a) ls;;& b) ls;; esac":           ";;&",
	"ls {} |& cat":                               "|&",
	"((1)) && ls {}":                             "((",
	"for ((i=0; i<2; i++)); do ls {}; done":      "for ((",
	"select x in a {}; do :; done":               "select",
	"let x=1; ls {}":                             "let",
	"declare -a x; ls {}":                        "declare",
	"typeset x; ls {}":                           "typeset",
	"f() { local -a x; }; f {}":                  "local -a",
	"f() { :; }; export -f f; ls {}":             "export -f",
	"i=1; echo $((i++)) {};":                     "++ in $((...))",
	"i=1; echo $((--i)) {};":                     "-- in $((...))",
	"echo $((2**3)) {};":                         "** in $((...))",
	"echo $[1+1] {};":                            "$[",
	"x=$(</etc/passwd); ls {}":                   "$(<",
	"echo $RANDOM {};":                           "$RANDOM",
	"sleep $((RANDOM%5)); ls {}":                 "$RANDOM",
	"while read -rd '' x; do ls; done < {}":      "read -d",
	"read -a x < {}; ls":                         "read -a",
	"read -t 1 x < {}; ls":                       "read -t",
	"read -r -n 1 x < {}; ls":                    "read -n",
	"read -s x < {}; ls":                         "read -s",
	"ls {} &\\\n> log; ls":                       "&>",
	"ls {} >& log; ls":                           ">& and a file",
	"mapfile -t x < {}; ls":                      "mapfile",
	"pushd {}; ls":                               "pushd",
	"shopt -s nullglob; ls {}":                   "shopt",
	"f() { if x; then ls {} | (cat &> x); fi; }": "&>",
}

// portable are scripts that look like one of those and that dash understands.
var portable = []string{
	"ls {} & wait", "ls {} >x 2>&1", "ls {} >&2", "exec 3>&-; ls >&$x {}", "read -rp x y; ls {}", `echo "[[ $x && {} &> ]]"; ls`, `echo "{1..3}" '{a,b}' \{a,b\} {};`, "awk '{print $1, $2}' {};",
	"cat <<E\n{a,b} [[ {}\nE", "x={a,b}; echo $x {};", "x={}; echo ${x%.gz} ${x##*/} ${x:-a} ${#x} ${x:+b} $# $* ${*} ${@};",
	"echo $((1+2)) $((-1)) {};", "echo == += {};", "f() { local x=1; }; f {}", "read -r x < {}; echo $x", "export x={}; ls", "export -p; ls {}",
	"ls source function select let {};", `source() { . "$@"; }; source {}`, "case {} in (a) ls;; *) :;; esac", "sed 's/[[:space:]]//g' {}; ls",
	"x=$(cat <{}); ls", "set -e -o nounset; ls {}", "(ls {});", "( (ls {}) );", "for f; do :; done; ls {}", "RANDOM=1; echo $RANDOM {};",
	"[ {} = == ]; test -f ==", "echo -e {};", "echo $(( $(echo 1) - - 1 )) {};", "x=1; echo \"${x:=2}\" {};", "echo $@ \"$@\" {};",
}

func TestBashisms(t *testing.T) {
	isDash := exec.Command("dash", "-c", "true").Run() == nil && !succeeds("[[ a ]]")
	for script, name := range bashisms {
		require.True(t, suspect(script), script)
		d := newDialect()
		d.known[name] = false
		require.EqualError(t, d.check(textOf(scan(script, &Config{}))), "/bin/sh does not understand "+name+": add --shell bash", script)
		if isDash {
			delete(d.known, name)
			require.Error(t, d.check(textOf(scan(script, &Config{}))), script)
			_, err := New(Config{Words: []string{script}})
			require.ErrorContains(t, err, "add --shell bash", script)
		}
	}
	for _, script := range portable {
		d := newDialect()
		require.NoError(t, d.check(textOf(scan(script, &Config{}))), script)
		require.Empty(t, d.known, script)
	}
}

// What no probe is asked about is known to bash: each feature's probe succeeds there.
func TestProbes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	for script, name := range bashisms {
		d := newDialect()
		probe := ""
		require.NoError(t, d.each(textOf(scan(script, &Config{})), func(ft feature) bool {
			if ft.name == name {
				probe = ft.probe
			}
			return true
		}))
		require.NotEmpty(t, probe, script)
		out, err := exec.Command(bash, "-c", probe).CombinedOutput()
		require.NoError(t, err, "%s: %s: %s", name, probe, out)
	}
}

func FuzzDialect(f *testing.F) {
	for s := range bashisms {
		f.Add(s)
	}
	for _, s := range portable {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d := newDialect()
		features := 0
		_ = d.each(s, func(feature) bool { features++; return true })
		if features > 0 && !strings.ContainsAny(s, "\n\x00") {
			require.True(t, suspect(s), "suspect misses what the parser finds")
		}
	})
}

func BenchmarkSuspect(b *testing.B) {
	for b.Loop() {
		suspect(`echo "it is x" | tr a b > x.out && cat ${x%.gz} || exit 3`)
	}
}
