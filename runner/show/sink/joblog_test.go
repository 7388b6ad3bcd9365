package sink

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/show/history"
)

func FuzzJoblogCommand(f *testing.F) {
	crewtest.Seeds(f, "", "a\tb", `\t`, "\\\n\r", "plain", `\x1b`, "\x1b[2J\a\x7f", "\u009b é\x9b\xff", `\`, `\x`, `\x1`)
	f.Fuzz(func(t *testing.T, s string) {
		got := string(appendEscaped(nil, s))
		require.NotRegexp(t, `[\x00-\x1f\x7f\x{80}-\x{9f}]`, got)
		row := strings.NewReader("1\t:\t1.000\t      0.000\t0\t0\t0\t0\t" + got + "\n")
		require.NoError(t, history.ReadStream("", row, func(l *history.Line) {
			require.True(t, l.Name == history.Began || s == string(l.Command), got)
		}))
	})
}
