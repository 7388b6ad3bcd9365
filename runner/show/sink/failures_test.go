package sink

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestColoursEnd checks that colours left on by a task are ended on the streams to which crew
// writes, and only there.
func TestColoursEnd(t *testing.T) {
	y := newTTY(t, 80)
	s := NewScreen(y.File, y.File)
	show(t, s, 0, "\x1b[31mred\n")
	show(t, s, 0, "still\n")
	s.Notice("plain")
	s.Notice("again")
	require.Contains(t, y.all(), "\x1b[31mred\r\nstill\r\n\x1b[0mcrew: plain\r\ncrew: again\r\n")
}

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
