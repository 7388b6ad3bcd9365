// Package sink writes results and messages for users: the output of tasks on stdout and stderr, the
// progress bar, the digest, the joblog and the results tree.
package sink

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/decide/task"
	"crew/runner/exec/kernel"
)

// urgentTimeout is how long an urgent line waits for another write.
const urgentTimeout = 100 * time.Millisecond

// Screen is the run's stdout and stderr, with the progress bar between them. All writes hold its
// lock, so they do not mix, and no line is written into the bar. It is safe for concurrent use.
type Screen struct {
	// configuration

	bar            *bar  // nil if no bar is used
	sharedTerminal bool  // stderr is a terminal to which tasks write directly
	inOrder        bool  // a write to one stream waits until the other one has been read
	fence          Fence // around crew's own lines that need one

	enclosure Fence // around everything

	// state

	mu       sync.Mutex
	out, err *stream
	last     *stream // the stream that was written last
}

// stream is the stdout or stderr of a screen. If it shares the terminal of the bar, a write removes
// the bar first.
type stream struct {
	screen   *Screen
	w        io.Writer // not embedded, because its ReadFrom would not remove the bar
	overBar  bool
	terminal bool // it is a terminal with colours
	coloured bool // a task may have left a colour on
	midLine  bool // the last write did not end with a newline
}

// NewScreen returns a screen for two streams.
func NewScreen(out, err io.Writer) *Screen {
	s := &Screen{}
	colours := func(w io.Writer) bool { return isTerminal(w) && os.Getenv("TERM") != "dumb" }
	s.out, s.err = &stream{screen: s, w: out, terminal: colours(out)}, &stream{screen: s, w: err, terminal: colours(err)}
	return s
}

func (s *stream) Write(p []byte) (int, error) {
	if s.overBar {
		s.screen.bar.clear()
	}
	if last := s.screen.last; s.screen.inOrder && last != nil && last != s {
		last.awaitRead()
	}
	n, err := writeFully(s.w, p)
	if n > 0 {
		s.midLine = p[n-1] != '\n'
		s.screen.last = s
	}
	if s.terminal {
		s.coloured = s.coloured || mayColour(p[:n])
	}
	return n, err
}

// HideBar removes the bar until it is drawn again. It does nothing during a write.
func (s *Screen) HideBar() {
	if s.bar != nil && s.mu.TryLock() {
		s.bar.clear()
		s.mu.Unlock()
	}
}

// Notice prints text on stderr as a line of crew's own, and escapes unprintable characters. It
// ignores errors.
func (s *Screen) Notice(text string) { s.Say("crew: " + task.Printable(text) + "\n") }

// Say prints text, if any, on stderr at the beginning of a line. It ignores errors, because crew's
// messages are not worth ending a run.
func (s *Screen) Say(text string) {
	if text != "" {
		s.print(s.fenced(text))
	}
}

func (s *Screen) print(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.err, s.newlineLocked()+text)
}

// newlineLocked ends colours that tasks have left active on stderr. If there is an unfinished line, it
// returns the text that ends it, otherwise "". The caller must hold mu.
func (s *Screen) newlineLocked() string {
	if s.err.terminal {
		s.err.coloured = s.err.coloured || s.sharedTerminal
		s.resetColoursLocked()
	}
	if s.sharedTerminal {
		// As zsh does: so many blanks reach the next line if the cursor is not at the beginning of
		// a line, and otherwise fill the line.
		_, columns := size(s.err.w)
		return strings.Repeat(" ", columns) + eraseBar
	}
	at := s.err
	if s.last == s.out && s.out.midLine != s.err.midLine && s.sameTarget() {
		at = s.out
	}
	if at.midLine {
		return "\n"
	}
	return ""
}

// sameTarget reports whether both streams go to the same terminal or file.
func (s *Screen) sameTarget() bool {
	out, ok := s.out.w.(*os.File)
	err, ok2 := s.err.w.(*os.File)
	if !ok || !ok2 {
		return false
	}
	if isTerminal(out) && isTerminal(err) {
		return true
	}
	a, failed := out.Stat()
	b, failed2 := err.Stat()
	return failed == nil && failed2 == nil && os.SameFile(a, b)
}

// TryUrgent is like Urgent, but prints nothing if the write would block.
func (s *Screen) TryUrgent(text string) {
	if got, err := poll(s.err.w, unix.POLLOUT, 0); err != nil || got&unix.POLLOUT != 0 { // an error means that it is not a file
		s.Urgent(text)
	}
}

// Urgent prints lines on stderr as lines of crew's own. If another write is stuck, because nothing
// reads stdout, it prints without waiting for it and leaves the progress bar to the next write.
func (s *Screen) Urgent(lines ...string) {
	text := ""
	for _, l := range lines {
		text += "crew: " + task.Printable(l) + "\n"
	}
	text = s.fenced(text)
	if !kernel.Poll(urgentTimeout, s.mu.TryLock) {
		if s.bar != nil && mayWrite(s.bar.tty) {
			text = eraseBar + text // without the lock, it is unknown whether the bar is shown
		}
		_, _ = writeFully(s.err.w, []byte(text))
		return
	}
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.err, s.newlineLocked()+text)
}

// resetColour ends all colours and other attributes of text (ECMA-48, SGR).
const resetColour = "\x1b[0m"

// red returns text in red if stderr has colours.
func (s *Screen) red(text string) string {
	if colours(os.Getenv, isTerminal(s.err.w)) {
		return "\x1b[31m" + text + resetColour
	}
	return text
}

// colours reports whether to use colours, depending on whether the output is a terminal, and on
// https://no-color.org, https://force-color.org and https://bixense.com/clicolors.
func colours(getenv func(string) string, terminal bool) bool {
	on := func(name string) bool { return getenv(name) != "0" && getenv(name) != "false" }
	switch {
	case getenv("NO_COLOR") != "":
		return false
	case getenv("FORCE_COLOR") != "":
		return on("FORCE_COLOR")
	case getenv("CLICOLOR_FORCE") != "" && on("CLICOLOR_FORCE"):
		return true
	}
	return terminal && getenv("TERM") != "dumb" && on("CLICOLOR")
}

// resetColoursLocked ends the colours that tasks have left active on a terminal. The caller must hold
// mu.
func (s *Screen) resetColoursLocked() {
	for _, to := range [...]*stream{s.out, s.err} {
		if to.coloured {
			to.coloured = false
			_, _ = writeFully(to.w, []byte(resetColour))
		}
	}
}

// mayColour reports whether text may leave a colour or another attribute on.
func mayColour(text []byte) bool { return bytes.IndexByte(text, '\x1b') >= 0 }
