package task

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// FuzzVisibleQuote: shells read back the original text from the quoted one.
func FuzzVisibleQuote(f *testing.F) {
	crewtest.Seeds(f, "", "a b", "it's", "\x1b[2J", "-\t-", "%s\\033\x01", "a\nb", "a\n\n", "\n", "\xff\u009b\u202e!x$(y)`z`", "\r1\x002")
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
