package wiring

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/front/cli"
)

// examples returns the shell text of the manual pages.
func examples(t *testing.T) []string {
	t.Helper()
	var list []string
	unescape := strings.NewReplacer(`\&`, "", `\(dq`, `"`, `\e`, `\`)
	for _, m := range regexp.MustCompile(`(?m)^\.Dl (.*)`).FindAllStringSubmatch(manText(t, "*.[17]"), -1) {
		list = append(list, unescape.Replace(m[1])+"\n")
	}
	return list
}

// TestExamples checks that crew accepts every one of its command lines in the manual pages.
func TestExamples(t *testing.T) {
	bash, err := exec.LookPath("bash")
	require.NoError(t, err)
	seen := 0
	for _, text := range examples(t) {
		dir := t.TempDir()
		for _, m := range regexp.MustCompile(`(?m)< ([\w.-]+)`).FindAllStringSubmatch(text, -1) {
			crewtest.WriteFile(t, filepath.Join(dir, m[1]), "", 0o666)
		}
		// The shell finds no program, and prints the words of crew's command lines.
		cmd := exec.Command(bash, "-c", `crew() { printf '%s\0' "$@" END >&3; }; PATH=; exec 3>&1 >&2 2>/dev/null; `+text)
		cmd.Dir = dir
		out, _ := cmd.Output() // the last command may be another program
		for line := range strings.SplitSeq(strings.TrimSuffix(string(out), "END\x00"), "END\x00") {
			words := strings.Split(strings.TrimSuffix(line, "\x00"), "\x00")
			if line == "" {
				continue
			}
			seen++
			o := parsed(t, words...)
			if o.Print != "" || o.Do != cli.DoRun || o.Input.Header > 0 {
				continue
			}
			o.Input.Files, o.Input.Groups = nil, nil
			s, err := openSource(o, 1, nil, strings.NewReader(""))
			require.NoError(t, err, "%q", words)
			require.NoError(t, s.reader.Close())
		}
	}
	require.Greater(t, seen, 25)
}
