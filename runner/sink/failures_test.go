package sink

import (
	"cmp"
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
	crewtest.Examples(t, "testdata/coloured.jsonl", func(t *testing.T, c struct {
		Text string
		On   *bool // nil: as before
	}) {
		for _, before := range []bool{false, true} {
			require.Equal(t, *cmp.Or(c.On, &before), colouredAfter([]byte(c.Text), before))
		}
	})
}
