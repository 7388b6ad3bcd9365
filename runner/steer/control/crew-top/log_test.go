package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func (l *log) texts() (texts []string) {
	for _, line := range l.lines {
		texts = append(texts, string(line.text))
	}
	return texts
}

// TestLogLines checks that lines of both streams stay whole, and that a progress bar is one line.
func TestLogLines(t *testing.T) {
	l := &log{}
	l.add([]byte("one\ntw"), false)
	l.add([]byte("error\r\n"), true)
	l.add([]byte(" 1%\r 5%\r"), true)
	l.add([]byte(" 9%\r\r\n"), true) // as through two terminals
	l.add([]byte("o\n\n 10%\r 20"), false)
	require.Equal(t, []string{"one", "two", "error\r", " 9%\r\r", "", " 20"}, l.texts())
	l.add([]byte("%\r"), false)
	require.Equal(t, " 20%\r", l.texts()[5])
	l.add([]byte(" 30%\nend"), false)
	require.Equal(t, []string{"one", "two", "error\r", " 9%\r\r", "", " 30%", "end"}, l.texts())
	require.True(t, l.lines[2].stderr)

	l.add([]byte(strings.Repeat("x", 10*longest)), false)
	require.Len(t, l.texts()[6], longest)
	l.add([]byte(strings.Repeat("\n", 3*keptLines)), false)
	require.Len(t, l.lines, keptLines)
}
