package sink

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/kernel"
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

// TestStreamsAreReadInOrder has stderr wait until stdout has been read.
func TestStreamsAreReadInOrder(t *testing.T) {
	fromOut, out, err := os.Pipe()
	require.NoError(t, err)
	fromErr, errs, err := os.Pipe()
	require.NoError(t, err)
	s := NewScreen(out, errs)
	s.Guard(testFence)
	begin, said := time.Now(), make(chan struct{})
	show(t, s, 0, "one")
	go func() {
		defer close(said)
		s.Say("two")
		out.Close()
		errs.Close()
	}()
	for range 100 {
		n, err := kernel.Unread(int(fromErr.Fd()))
		require.NoError(t, err)
		require.True(t, n == 0 || time.Since(begin) > readWithin, "it has been written too early")
		time.Sleep(100 * time.Microsecond)
	}
	var text strings.Builder
	_, err = io.CopyN(&text, fromOut, 3)
	require.NoError(t, err)
	_, err = io.Copy(&text, fromErr)
	require.NoError(t, err)
	<-said
	require.Equal(t, "onetwo", strings.ReplaceAll(text.String(), "\n", ""))
}
