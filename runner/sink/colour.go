package sink

import (
	"bytes"
	"os"
	"strings"
)

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

// colouredAfter reports whether text leaves a colour or another attribute on, or ends
// inside the escape sequence of one. before is whether one was on before it.
func colouredAfter(text []byte, before bool) bool {
	for {
		at := bytes.LastIndexByte(text, '\x1b')
		if at < 0 {
			return before
		}
		sequence := text[at+1:]
		text = text[:at]
		if len(sequence) == 0 {
			return true
		}
		if sequence[0] != '[' {
			continue
		}
		n := bytes.IndexFunc(sequence[1:], func(r rune) bool { return r >= '@' && r <= '~' })
		if n < 0 {
			return true
		}
		if sequence[1+n] == 'm' {
			return strings.Trim(string(sequence[1:1+n]), "0;") != ""
		}
	}
}
