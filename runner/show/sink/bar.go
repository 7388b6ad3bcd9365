package sink

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/exec/kernel"
)

// eraseBar erases the bar, and the line that the cursor is in if there is none.
const eraseBar = "\r\x1b[J"

// bar is the last lines of the terminal. It is used under the screen's lock.
//
// The cursor stays at the beginning of its first line. If a window gets narrower,
// most terminals break the lines that have become too long, and the others cut
// them; the cursor keeps its place in both cases, and all of the bar follows it.
type bar struct {
	screen *Screen
	tty    *os.File
	shown  bool
	drawn  time.Time
}

// put draws lines in place of the current ones, below an unfinished line of a task.
func (b *bar) put(lines []string, now time.Time) {
	text := "\r" + strings.Join(lines, "\x1b[K\r\n") + "\x1b[J"
	if up := len(lines) - 1; up > 0 {
		text += fmt.Sprintf("\x1b[%dA", up)
	}
	if !b.shown {
		text = b.screen.newline() + text
		b.screen.last, b.screen.err.midLine = b.screen.err, false
	}
	writeFully(b.tty, []byte(text+"\r"))
	b.shown, b.drawn = true, now
}

// clear removes the bar, but leaves a terminal alone that another program has taken.
func (b *bar) clear() {
	if b.shown && free(b.tty) {
		writeFully(b.tty, []byte(eraseBar))
	}
	b.shown = false
}

// free reports whether lines that nobody waits for may be written to w. If that is a
// terminal, crew has to be in its foreground, and no other program there, such as a pager,
// may read keys or a password.
func free(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return true
	}
	const typing = unix.ICANON | unix.ECHO
	if mode, err := kernel.Modes(int(f.Fd())); err != nil || mode.Lflag&typing != typing {
		return err != nil
	}
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp() // the error of a terminal that does not control crew
}

// Columns returns how wide a terminal is, or math.MaxInt if w is none.
func Columns(w io.Writer) int {
	if !isTerminal(w) {
		return math.MaxInt
	}
	_, columns := size(w)
	return columns
}

// size returns the current size of a terminal, and a usual one if that is unknown.
func size(tty io.Writer) (rows, columns int) {
	if f, ok := tty.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			rows, columns = int(size.Row), int(size.Col)
		}
	}
	return cmp.Or(rows, 24), cmp.Or(columns, 80)
}
