package expand

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"crew/runner/crewtest"

	"github.com/stretchr/testify/require"
)

// idiom is an entry of testdata/idioms.txt.
type idiom struct {
	script string
	marks  map[string]string // by shell
	want   string            // expected arguments of programs, or ""
}

// readIdioms reads testdata/idioms.txt, which describes its own format.
func readIdioms(t testing.TB) []idiom {
	t.Helper()
	text := crewtest.ReadFile(t, "testdata/idioms.txt")
	var list []idiom
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		head, rest, ok := strings.Cut(line, "\t")
		switch {
		case line == "", line[0] == '#':
		case !ok:
			t.Fatalf("no tab in %q", line)
		case head == "=":
			list[len(list)-1].want = rest
		case head == "":
			list[len(list)-1].script += "\n" + rest
		default:
			words := strings.Fields(head)
			i := idiom{script: rest, marks: map[string]string{"sh": words[0], "bash": words[0]}}
			for _, w := range words[1:] {
				shell, mark, _ := strings.Cut(w, ":")
				i.marks[shell] = mark
			}
			list = append(list, i)
		}
	}
	return list
}

// verdict returns how the package treats a script: run, number or refused.
func verdict(script, shell string) (string, error) {
	if shell == "sh" {
		shell = ""
	}
	tm, err := New(Config{Words: []string{script}, Shell: shell})
	if err != nil {
		return "refused", err
	}
	if _, ok := fillIn(tm, Values{Records: [][]string{{"x y"}}, Seq: 7}); !ok {
		return "number", nil
	}
	return "run", nil
}

// TestIdioms checks how the package treats the shell idioms that people write most.
func TestIdioms(t *testing.T) {
	asked, refused := map[string]int{}, map[string]int{}
	for _, i := range readIdioms(t) {
		for shell, mark := range i.marks {
			if mark == "-" {
				continue
			}
			got, err := verdict(i.script, shell)
			if got != mark && !(mark == "number" && got == "run") {
				t.Errorf("%s: %q is %s instead of %s: %v", shell, i.script, got, mark, err)
			}
			asked[shell]++
			if got == "refused" {
				refused[shell]++
			}
		}
	}
	for shell := range asked {
		t.Logf("%s: %d of %d idioms are refused (%.1f %%)", shell, refused[shell], asked[shell], 100*float64(refused[shell])/float64(asked[shell]))
		require.LessOrEqual(t, refused[shell]*100, asked[shell]*4, shell)
	}
}

// printName is a program that prints its name and its arguments.
const printName = "#!/bin/sh\nprintf '%s\\0' \"${0##*/}\" \"$@\"\n"

// TestIdiomsRun checks the arguments that programs get from the idioms, with awkward values.
func TestIdiomsRun(t *testing.T) {
	bin := t.TempDir()
	for _, name := range strings.Fields(`awk cp curl cut docker envprog ffmpeg find flock gzip git grep head jq mkdir mkfifo mv mysql perl prog psql
		python3 rm rsync scp sed show sleep sort sqlite3 ssh sudo sync tac tail tar tee touch tr uniq wc xargs date mkdir rmdir seq sha1sum
		basename dirname mktemp chmod cc host openssl mail ping wget zcat convert make kubectl unzip ls id nohup ln`) {
		crewtest.WriteFile(t, filepath.Join(bin, name), printName, 0o755)
	}
	o := newOracle(t)
	o.path = bin
	for _, name := range []string{"sh", "bash", "cat", "env", "timeout", "nice", "expr", "printf"} {
		link(t, bin, name)
	}
	var together []trial
	for n, i := range readIdioms(t) {
		if i.want == "" {
			continue
		}
		values := []string{"12"}
		if i.marks["sh"] == "run" || i.marks["bash"] == "run" {
			values = nil
			for j, v := range awkward {
				if v != "" && v != "-n" && ((n+j)%24 == 0 || crewtest.Soaking()) {
					values = append(values, v)
				}
			}
		}
		for shell, mark := range i.marks {
			if mark == "-" || !slices.Contains(o.shells, shell) && shell != "sh" {
				continue
			}
			if (n+slices.Index(o.shells, shell))%2 != 0 && !crewtest.Soaking() { // each idiom in every other shell
				continue
			}
			cfg := Config{Words: []string{i.script}, Shell: shell}
			if shell == "sh" {
				cfg.Shell = ""
			}
			tm, err := New(cfg)
			if err != nil {
				continue // TestIdioms has reported it
			}
			var list []trial
			for _, v := range values {
				argv, ok := fillIn(tm, Values{Records: [][]string{{v}}, Seq: 7})
				if !ok && strings.HasPrefix(v, "-") {
					continue // ssh would read it as an option
				}
				require.True(t, ok, "%s with %q", i.script, v)
				list = append(list, trial{argv, strings.Split(strings.ReplaceAll(i.want, "@", v), "¦"), fmt.Sprintf("%s: %s with %q", shell, i.script, v)})
			}
			alone := min(1, len(list))
			if argv := list[0].argv; slices.Contains([]string{"/bin/sh", "bash"}, argv[0]) && len(argv) == 3 {
				if (n+len(shell))%3 != 0 && !crewtest.Soaking() { // alone in each shell in turn
					alone = 0
				}
				together = append(together, list[alone:]...)
			}
			o.check(t, list[:alone])
		}
	}
	o.checkTogether(t, together)
}
