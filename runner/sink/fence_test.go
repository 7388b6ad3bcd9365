package sink

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

var testFence = Fence{"<\n", ">\n"}

// TestOwnLinesAreFenced has a fence around lines of crew's own if GitHub Actions might
// find a command in them.
func TestOwnLinesAreFenced(t *testing.T) {
	var out, err bytes.Buffer
	s := NewScreen(&out, &err)
	s.Guard(testFence)
	for line, fenced := range map[string]bool{
		"crew: a ::b\n": false, "a\n  ::error::b\n": true, "a\r::error::b\n": true, "crew: ##[error]a\n": true, "": false,
	} {
		err.Reset()
		want := line
		if s.Say(line); fenced {
			want = "<\n" + line + ">\n"
		}
		require.Equal(t, want, err.String())
	}
	err.Reset()
	s.Status([]string{"##[a]"})
	s.Urge("##[b]")
	s.Last("##[c]")
	s.Command("::c::\n")
	require.Equal(t, "<\ncrew: ##[a]\n>\n<\ncrew: ##[b]\n>\n<\ncrew: ##[c]\n>\n::c::\n", err.String())

	err.Reset()
	open := s.Enclose(testFence, false)
	s.Say("::a::\n")
	s.Command("::c::\n")
	open()
	require.Equal(t, "<\n::a::\n>\n::c::\n<\n>\n", err.String())
	require.Equal(t, "<\n>\n", out.String())
}
