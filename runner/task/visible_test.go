package task

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVisibleLines(t *testing.T) {
	script := func(s string, records ...[]string) Task {
		return Task{Argv: []string{"/bin/sh", "-c", s}, Shell: true, Records: records}
	}
	for _, c := range []struct {
		task Task
		want string
	}{
		{Task{Argv: []string{"touch", "a b", "é"}}, "touch 'a b' 'é'"},
		{Task{Argv: []string{"touch", "\x1b[2J", "a b"}}, `touch "$(printf '\033[2J')" 'a b'`},
		{Task{Argv: []string{"a=\x1b"}}, `"$(printf 'a=\033')"`},
		{script("a |\n\tb", []string{"x"}), "a |\n\tb"},
		{script("echo '\x1b'", []string{"\x1b"}), `/bin/sh -c "$(printf 'echo \047\033\047')"`},
		{script("echo 'a\nb'", []string{"a\nb"}), `/bin/sh -c "$(printf 'echo \047a\nb\047')"`},
		{Task{Argv: []string{"jq"}, Protocol: LineProtocol, Stdin: []byte("a\x1bb")}, `jq <<< "$(printf 'a\033b')"`},
	} {
		require.Equal(t, c.want, c.task.VisibleLine(c.task.Argv))
	}
}

// FuzzVisibleQuote has shells read what a terminal shows.
func FuzzVisibleQuote(f *testing.F) {
	for _, s := range []string{"", "a b", "it's", "\x1b[2J", "-\t-", "%s\\033\x01", "a\nb", "a\n\n", "\n", "\xff\u009b\u202e!x$(y)`z`", "\r1\x002"} {
		f.Add(s)
	}
	var shells []string
	for _, name := range []string{"sh", "bash", "dash", "zsh", "ksh", "mksh"} {
		if path, err := exec.LookPath(name); err == nil {
			shells = append(shells, path)
		}
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = strings.ReplaceAll(s, "\x00", "") // in no word
		word := VisibleQuote(s)
		require.False(t, IsHidden(strings.ReplaceAll(word, "\n", "")), word)
		for _, shell := range shells {
			out, err := exec.Command(shell, "-c", "printf '%s' "+word).Output()
			require.NoError(t, err, "%s: %s", shell, word)
			require.Equal(t, s, string(out), "%s: %s", shell, word)
		}
	})
}
