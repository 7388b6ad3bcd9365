package sink

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

func TestColours(t *testing.T) {
	crewtest.Examples(t, "testdata/colours.jsonl", func(t *testing.T, c struct {
		Env            string
		Terminal, File bool
	}) {
		env := map[string]string{}
		for s := range strings.FieldsSeq(c.Env) {
			name, value, _ := strings.Cut(s, "=")
			env[name] = value
		}
		getenv := func(name string) string { return env[name] }
		require.Equal(t, c.Terminal, colours(getenv, true))
		require.Equal(t, c.File, colours(getenv, false))
	})
}

func TestColouredAfter(t *testing.T) {
	for text, want := range map[string]bool{
		"\x1b[31mred": true, "\x1b[31mred\x1b[0m": false, "\x1b[1;31mred\x1b[m\x1b[K\n": false,
		"\x1b[0;1mbold": true, "\x1b[38;5;0mblack": true, "a\x1b": true, "\x1b[0m\x1b[3": true, "\x1b[00;00m": false,
	} {
		require.Equal(t, want, colouredAfter([]byte(text), !want), "%q", text)
	}
	for _, text := range []string{"", "plain", "\x1b[2J\x1b[1A", "\x1b]0;title\a"} {
		require.True(t, colouredAfter([]byte(text), true))
		require.False(t, colouredAfter([]byte(text), false))
	}
}
