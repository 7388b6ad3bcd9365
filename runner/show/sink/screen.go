// Package sink writes for people and pipes: tasks' output on stdout and
// stderr, the progress bar, the digest, the joblog and the results tree.
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
)

// urgentWithin is how long an urgent line waits for a write.
const urgentWithin = 100 * time.Millisecond

// Screen is the run's stdout and stderr with the progress bar between them.
// Everything is shown under its lock, so writers do not mix and no line is
// written into the bar. It is safe for concurrent use.
type Screen struct {
	// configuration

	bar     *bar  // nil if none is shown
	shared  bool  // stderr is a terminal to which tasks write themselves
	inOrder bool  // a stream waits until the other one has been read
	fence   Fence // around lines of crew's own that need one

	enclosure Fence // around all that is shown

	// state

	mu       sync.Mutex
	out, err *stream
	last     *stream // the one written to last
}

// stream is stdout or stderr of a screen. If it goes to the terminal of the bar, a
// write removes the bar first.
type stream struct {
	screen   *Screen
	w        io.Writer // not embedded: its ReadFrom would not remove the bar
	overBar  bool
	terminal bool // it is a terminal that knows colours
	coloured bool // it may have left a colour on there
	midLine  bool // the last write did not end its line
}

// NewScreen returns a screen of the two streams.
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
		s.coloured = s.coloured || escapes(p[:n])
	}
	return n, err
}

// HideBar removes the bar until it is drawn again, unless something is being written.
func (s *Screen) HideBar() {
	if s.bar != nil && s.mu.TryLock() {
		s.bar.clear()
		s.mu.Unlock()
	}
}

// Notice prints text on stderr as a line of crew's own, with unprintable characters
// escaped. Errors are ignored.
func (s *Screen) Notice(text string) { s.Say("crew: " + task.Printable(text) + "\n") }

// Say prints text, if any, on stderr, at the beginning of a line. What crew says
// about itself is not worth ending a run for, so errors are ignored.
func (s *Screen) Say(text string) {
	if text != "" {
		s.say(s.fenced(text))
	}
}

func (s *Screen) say(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.err, s.newline()+text)
}

// newline ends the colours that tasks have left on where stderr goes, and returns what ends
// an unfinished line there, or "". It is called under the lock.
func (s *Screen) newline() string {
	if s.err.terminal {
		s.err.coloured = s.err.coloured || s.shared
		s.uncolour()
	}
	if s.shared {
		// As zsh has it: so many blanks reach the next line if the cursor is not at
		// the beginning of its line, and otherwise fill it.
		_, columns := size(s.err.w)
		return strings.Repeat(" ", columns) + eraseBar
	}
	at := s.err
	if s.last == s.out && s.out.midLine != s.err.midLine && s.together() {
		at = s.out
	}
	if at.midLine {
		return "\n"
	}
	return ""
}

// together reports whether both streams go to the same terminal or file.
func (s *Screen) together() bool {
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

// TryUrgent is like Urgent, for when nobody may be reading: it prints nothing if that would have
// to wait.
func (s *Screen) TryUrgent(text string) {
	if got, err := poll(s.err.w, unix.POLLOUT, 0); err != nil || got&unix.POLLOUT != 0 { // or it is no file
		s.Urgent(text)
	}
}

// Urgent prints lines on stderr as lines of crew's own. It does not wait for a write
// that is stuck because nobody reads stdout, and then leaves the progress bar to the
// next write.
func (s *Screen) Urgent(lines ...string) {
	text := ""
	for _, l := range lines {
		text += "crew: " + task.Printable(l) + "\n"
	}
	text = s.fenced(text)
	for end := time.Now().Add(urgentWithin); !s.mu.TryLock(); time.Sleep(time.Millisecond) {
		if !time.Now().Before(end) {
			if s.bar != nil && free(s.bar.tty) {
				text = eraseBar + text // whether it is shown is known only under the lock
			}
			_, _ = writeFully(s.err.w, []byte(text))
			return
		}
	}
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.err, s.newline()+text)
}

// resetColour ends all colours and other attributes of text (ECMA-48, SGR).
const resetColour = "\x1b[0m"

// red returns a text about a failure, which is red if stderr has colours.
func (s *Screen) red(text string) string {
	if colours(os.Getenv, isTerminal(s.err.w)) {
		return "\x1b[31m" + text + resetColour
	}
	return text
}

// colours reports whether to colour what goes to a terminal, or elsewhere, by
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

// uncolour ends the colours that tasks have left on on a terminal. It is called under the
// lock.
func (s *Screen) uncolour() {
	for _, to := range [...]*stream{s.out, s.err} {
		if to.coloured {
			to.coloured = false
			_, _ = writeFully(to.w, []byte(resetColour))
		}
	}
}

// escapes reports whether a text may leave a colour or another attribute on.
func escapes(text []byte) bool { return bytes.IndexByte(text, '\x1b') >= 0 }
