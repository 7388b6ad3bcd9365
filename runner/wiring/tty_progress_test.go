package wiring

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// widths are those of the terminals that a display is tried on.
var widths = [...]int{120, 80, 40}

// onWidths runs a test for each of the widths, with a directory that has a file
// "in" of that many lines.
func onWidths(t *testing.T, lines int, test func(t *testing.T, width int, dir string)) {
	t.Parallel()
	for _, width := range widths {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var text strings.Builder
			for i := range lines {
				fmt.Fprintf(&text, "file%d\n", i+1)
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "in"), []byte(text.String()), 0o666))
			test(t, width, dir)
		})
	}
}

// resize gives the terminal another width. As most terminals do, it breaks lines
// that have become too long, and the cursor keeps its place in the text; others
// (if cuts) cut them.
func (v *terminal) resize(t *testing.T, width int, cuts bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.width = width
	var lines [][]byte
	row, col := v.row, v.col
	for i, l := range v.lines {
		if i == v.row {
			row = len(lines)
			if !cuts {
				row, col = row+col/width, col%width
			}
		}
		for len(l) > width && !cuts {
			lines, l = append(lines, l[:width:width]), l[width:]
		}
		lines = append(lines, l[:min(width, len(l)):min(width, len(l))])
	}
	v.lines, v.row, v.col = lines, row, min(col, width-1)
	require.NoError(t, pty.Setsize(v.file, &pty.Winsize{Rows: 24, Cols: uint16(width)}))
}

// TestTerminalTotal has the bar know how many tasks a file makes.
func TestTerminalTotal(t *testing.T) {
	onWidths(t, 3000, func(t *testing.T, width int, dir string) {
		cmd := crew("-j2", "-a", "in", "sh", "-c", `[ $1 = file1 ] || until [ -e go ]; do sleep 0.05; done; [ $1 != file9 ] || kill $PPID`, "sh")
		cmd.Dir = dir
		v := startOnTerminal(t, width, cmd)
		v.await(t, map[int]string{
			120: `^crew: 1/3000 done, 2 running, 0 failed, after \d+s, .*oldest \d+s +0% \[\.+\]\ncrew: longest: \d+s file2, \d+s file3$`,
			80:  `^crew: 1/3000 done, 2 running, 0 failed, after \d+s, oldest \d+s( +0% \[\.+\])?\ncrew: longest: \d+s file2, \d+s file3$`,
			40:  `^crew: 1/3000 done, 0 failed, oldest \d+s\ncrew: longest: \d+s file2, \d+s file3$`,
		}[width])

		// Ctrl-C twice: what is left is counted, too.
		for _, says := range []string{"Ctrl-C again ends", "Ctrl-C again kills"} {
			v.say(t, "\x03")
			v.await(t, strings.ReplaceAll(says, " ", `\s+(crew:\s+)?`)) // long lines are folded
		}
		_, lines := v.end(t)
		all := strings.Join(lines, "")
		require.Regexp(t, `crew: 1 of 3000 tasks done in [0-9.]+s; 2 interrupted, 2997 not startedcrew: run them again: crew `, all)
		require.NotContains(t, all, "[.", "nothing of the bar is left")
	})
}

// TestTerminalUnfinishedLine has the bar stand below output without a newline, and
// no line of crew's own run into it.
func TestTerminalUnfinishedLine(t *testing.T) {
	onWidths(t, 3, func(t *testing.T, width int, dir string) {
		cmd := crew("-j1", "-a", "in", "sh", "-c", `[ $1 != file2 ] || until [ -e go ]; do sleep 0.05; done; printf %s $1; [ $1 != file3 ]`, "sh")
		cmd.Dir = dir
		v := startOnTerminal(t, width, cmd)
		v.await(t, `^file1\ncrew: 1/3 done`)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o666))
		v.end(t)
		all := v.unwrapped()
		require.Regexp(t, `\Afile1\n(file2file3|file2\nfile3)\ncrew: task 3 failed: exit 1 after [0-9.]+m?s: file3\ncrew: 1 of 3 tasks failed in `, all)
		require.NotContains(t, all, "running")
	})
}

// TestTerminalRaw has crew's lines begin lines although it does not see what tasks
// write.
func TestTerminalRaw(t *testing.T) {
	onWidths(t, 1, func(t *testing.T, width int, dir string) {
		for _, text := range []string{"x", `x\n`, strings.Repeat("x", width-1), strings.Repeat("x", width+1)} {
			v := startOnTerminal(t, width, crew("-u", "printf '"+text+"'; exit {}", ":::", "3"))
			_, lines := v.end(t)
			for len(lines) > 0 && strings.HasPrefix(lines[0], "x") {
				lines = lines[1:]
			}
			require.Regexp(t, `^crew: task 1 failed: exit 3 after `, lines[0], text)
			require.Contains(t, strings.Join(lines, "\n"), "\ncrew: 1 of 1 task failed in ", text)
		}
	})
}

// TestTerminalResize has a window get narrower and wider while the bar stands, on
// terminals that break lines and on those that cut them. A bar that is being drawn
// just then stays there in pieces, on any terminal, so it has three tries.
func TestTerminalResize(t *testing.T) {
	t.Parallel()
	for _, cuts := range []bool{false, true} {
		t.Run(fmt.Sprint(cuts), func(t *testing.T) {
			t.Parallel()
			for try := 1; ; try++ {
				text, ok := resized(t, cuts)
				if ok {
					return
				}
				require.Less(t, try, 3, text)
			}
		})
	}
}

// resized resizes a terminal with a bar, and reports whether the bar is whole on each
// width.
func resized(t *testing.T, cuts bool) (text string, ok bool) {
	open := filepath.Join(t.TempDir(), "go")
	args := []string{"-j2", "sh", "-c",
		`case $1 in a*) printf "above the bar"; exit;; esac; until [ -e "$0" ]; do sleep 0.2; done`, open, "{}", ":::", "a"}
	for _, c := range []string{"b", "c"} {
		args = append(args, strings.Repeat(c, 90))
	}
	v := startOnTerminal(t, 120, crew(args...))
	v.await(t, `^crew: 1/3 done, 2 running, 0 failed, after \d+s, .*oldest [1-9]\d*s .*\ncrew: longest: \d+s [bc]+.*, \d+s [bc]+.*$`)
	whole := regexp.MustCompile(`\Aabove the bar\n.*1/3.*\ncrew: longest: [0-9ms]+ [bc]+.*\z`)
	for _, width := range []int{80, 40, 35, 120, 36} {
		v.resize(t, width, cuts)
		v.mu.Lock()
		seen := len(v.raw)
		v.mu.Unlock()
		drawn := func() bool {
			v.mu.Lock()
			defer v.mu.Unlock()
			return bytes.Count(v.raw[seen:], []byte("\x1b[J")) >= 3 && len(v.seq) == 0 && v.col == 0 && bytes.HasSuffix(v.raw, []byte("A\r"))
		}
		crewtest.Until(t, drawn, "the bar on %d columns", width)
		if text = v.text(); !whole.MatchString(text) {
			return fmt.Sprintf("%d columns: %s", width, text), false
		}
		for _, l := range strings.Split(text, "\n") {
			require.Less(t, len(l), width)
		}
	}
	require.NoError(t, os.WriteFile(open, nil, 0o666))
	_, lines := v.end(t)
	require.Equal(t, []string{"above the bar"}, withoutSummary(lines))
	return "", true
}
