package engine

import (
	"bytes"
	"strings"
	"sync"
	"sync/atomic"

	"crew/runner/task"
)

// mostLine limits the bytes of a line that are shown.
const mostLine = 500

// said takes what ssh and a worker write to stderr. While live, it shows each line. It
// always keeps the last one, which may be the reason for a failure. It is safe for
// concurrent use.
type said struct {
	show func(string)
	live atomic.Bool

	mu   sync.Mutex
	part []byte // of a line that has not ended
	text string // the last line
}

// Write takes a part of the text.
func (s *said) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, found := bytes.Cut(p, []byte{'\n'})
		s.mu.Lock()
		s.part = append(s.part, line[:min(len(line), mostLine-len(s.part))]...)
		text := ""
		if found {
			text = strings.TrimSpace(task.Printable(strings.TrimRight(string(s.part), "\r")))
			s.part = s.part[:0]
		}
		text = strings.TrimPrefix(text, "crew: ")
		if text != "" {
			s.text = text
		}
		s.mu.Unlock()
		if text != "" && s.live.Load() {
			s.show(text)
		}
		if !found {
			return n, nil
		}
		p = rest
	}
}

// forget forgets the last line: what a login says is no reason for what happens later.
func (s *said) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = ""
}

func (s *said) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}
