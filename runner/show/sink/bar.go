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

// eraseBar erases the bar, or the cursor's line if there is no bar.
const eraseBar = "\r\x1b[J"

// bar is the progress display in the last lines of the terminal. The caller of its methods must
// hold the screen's lock.
//
// The cursor stays at the beginning of the first line of the bar. If the window becomes narrower,
// most terminals wrap lines that are too long, and the others cut them. In both cases the cursor
// keeps its place, and all of the bar is behind it.
type bar struct {
	screen *Screen
	tty    *os.File
	shown  bool
	drawn  time.Time
}

// draw replaces the bar by lines. If the bar was not shown, it begins below an unfinished line of a
// task.
func (b *bar) draw(lines []string, now time.Time) {
	text := "\r" + strings.Join(lines, "\x1b[K\r\n") + "\x1b[J"
	if up := len(lines) - 1; up > 0 {
		text += fmt.Sprintf("\x1b[%dA", up)
	}
	if !b.shown {
		text = b.screen.newlineLocked() + text
		b.screen.last, b.screen.err.midLine = b.screen.err, false
	}
	writeFully(b.tty, []byte(text+"\r"))
	b.shown, b.drawn = true, now
}

// clear removes the bar, unless another program has the terminal.
func (b *bar) clear() {
	if b.shown && mayWrite(b.tty) {
		writeFully(b.tty, []byte(eraseBar))
	}
	b.shown = false
}

// mayWrite reports whether unrequested lines may be written to w. If w is a terminal, crew must be
// in its foreground, and no other program, such as a pager, may be reading keys or a password from
// it.
func mayWrite(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return true
	}
	const typing = unix.ICANON | unix.ECHO
	if mode, err := kernel.Modes(int(f.Fd())); err != nil || mode.Lflag&typing != typing {
		return err != nil
	}
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err != nil || group == unix.Getpgrp() // an error means that w is not crew's controlling terminal
}

// Columns returns the width of a terminal, or math.MaxInt if w is not a terminal.
func Columns(w io.Writer) int {
	if !isTerminal(w) {
		return math.MaxInt
	}
	_, columns := size(w)
	return columns
}

// size returns the size of a terminal, or 24 by 80 if it is unknown.
func size(tty io.Writer) (rows, columns int) {
	if f, ok := tty.(*os.File); ok {
		if size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			rows, columns = int(size.Row), int(size.Col)
		}
	}
	return cmp.Or(rows, 24), cmp.Or(columns, 80)
}
