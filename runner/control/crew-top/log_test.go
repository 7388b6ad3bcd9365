package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/require"
)

func (l *log) texts() (texts []string) {
	for _, line := range l.lines {
		texts = append(texts, string(line.text))
	}
	return texts
}

// Lines of both streams stay whole, and a progress bar is one line.
func TestLogLines(t *testing.T) {
	l := &log{}
	l.add([]byte("one\ntw"), false)
	l.add([]byte("error\r\n"), true)
	l.add([]byte(" 1%\r 5%\r"), true)
	l.add([]byte(" 9%\r\n"), true)
	l.add([]byte("o\n\n 10%\r 20"), false)
	require.Equal(t, []string{"one", "two", "error\r", " 9%\r", "", " 20"}, l.texts())
	l.add([]byte("%\r"), false)
	require.Equal(t, " 20%\r", l.texts()[5])
	l.add([]byte(" 30%\nend"), false)
	require.Equal(t, []string{"one", "two", "error\r", " 9%\r", "", " 30%", "end"}, l.texts())
	require.True(t, l.lines[2].stderr)

	l.add([]byte(strings.Repeat("x", 10*longest)), false)
	require.Len(t, l.texts()[6], longest)
	l.add([]byte(strings.Repeat("\n", 3*keptLines)), false)
	require.Len(t, l.lines, keptLines)
}

func TestLogView(t *testing.T) {
	l := &log{id: 7, state: "running", command: "make all", follow: true}
	for i := range 100 {
		l.add(fmt.Appendf(nil, "line %d \x1b[1;31m\x1b[2J\t%s\x1b[0m\r\n", i, strings.Repeat("=", 50)), false)
	}
	a := keyed(t, 0, "")
	v := &a.view
	v.log = l
	got := picture(t, v, 40, 10)
	require.Equal(t, " task 7  running  make all", got[0])
	require.Equal(t, `line 92     ===========================…`, got[1])
	require.Equal(t, ` q back`, got[9])
	a.key(tcell.KeyPgUp, 0)
	require.Contains(t, picture(t, v, 40, 10)[1], "line 84 ")
	l.add([]byte("more\n"), false)
	require.Contains(t, picture(t, v, 40, 10)[1], "line 84 ", "it follows only at the end")
	a.key(tcell.KeyRight, 0)
	require.Contains(t, picture(t, v, 40, 10)[1], `  =====`)
	require.NotContains(t, picture(t, v, 40, 10)[1], `line`)
	a.key(tcell.KeyEnd, 0)
	l.ended = "exit 3"
	got = picture(t, v, 40, 10)
	require.Equal(t, " task 7  exit 3  make all", got[0])
	require.Equal(t, "", got[8], "scrolled to the right: more")
	l.close = func() {}
	a.key(tcell.KeyEscape, 0)
	require.Nil(t, v.log)
}
