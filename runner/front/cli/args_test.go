package cli

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

func words(uses []use) []string {
	var ws []string
	for _, u := range uses {
		ws = append(ws, u.word())
	}
	return ws
}

func FuzzArgs(f *testing.F) {
	crewtest.Seeds(f, "", "-kj4\x00ls\x00-l", "-j\x00-1\x00--\x00x", "--output=raw\x00-u\x00:::\x00a", "-0n1P8", "--retires\x00x", "\n\x00&",
		"-d\x00a b\x00--tag-string=\xff\n\x00\x00x y")
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\x00")
		l, err := commands[0].split(args)
		if err != nil {
			require.ErrorAs(t, err, new(*UsageError))
			return
		}
		again, err := commands[0].split(append(append(words(l.uses), "--"), l.operands...))
		require.NoError(t, err)
		require.True(t, again.dashDash)
		require.Equal(t, words(l.uses), words(again.uses))
		require.Equal(t, append([]string{}, l.operands...), append([]string{}, again.operands...))

		command, groups, err := splitGroups(l.operands)
		if err == nil {
			all := slices.Clone(command)
			for _, g := range groups {
				all = append(append(all, g.Values...), g.File)
			}
			separates := func(w string) bool { return strings.HasPrefix(w, ":::") || w == "" }
			require.Equal(t, slices.DeleteFunc(slices.Clone(l.operands), separates), slices.DeleteFunc(all, separates))
		}
		if len(command) > 0 {
			env := func(string) string { return "" }
			if _, err = Parse(append([]string{"crew"}, args...), env); err != nil {
				require.ErrorAs(t, err, new(*UsageError))
			}
		}
	})
}

func FuzzShellWords(f *testing.F) {
	f.Add(`a 'b c' "d\"e" \f`)
	f.Fuzz(func(t *testing.T, s string) {
		ws, err := shellWords(s)
		if err != nil {
			return
		}
		// The words, quoted again, are split the same way.
		var quoted []string
		for _, w := range ws {
			quoted = append(quoted, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
		}
		again, err := shellWords(strings.Join(quoted, " "))
		require.NoError(t, err)
		require.Equal(t, ws, again)
	})
}
