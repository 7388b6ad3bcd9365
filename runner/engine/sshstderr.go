package engine

import (
	"bytes"
	"cmp"
	"strings"
	"sync"
	"sync/atomic"

	"crew/runner/task"
)

// mostLine limits the bytes of a line that are shown.
const mostLine = 500

// stderrLines takes what ssh and a worker write to stderr. While live, it shows each line. It
// always keeps the last one, which may be the reason for a failure. It is safe for
// concurrent use.
type stderrLines struct {
	show func(string)
	live atomic.Bool

	mu   sync.Mutex
	part []byte // of a line that has not ended
	text string // the last line
}

// Write takes a part of the text.
func (s *stderrLines) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		if line := s.add(part); line != "" && s.live.Load() {
			s.show(line)
		}
	}
	return len(p), nil
}

// add takes a part of a line. It returns the line when it is whole.
func (s *stderrLines) add(part []byte) (line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.part = append(s.part, part[:min(len(part), mostLine-len(s.part))]...)
	if part[len(part)-1] != '\n' {
		return ""
	}
	line = strings.TrimPrefix(task.Printable(strings.TrimSpace(string(s.part))), "crew: ")
	s.part, s.text = s.part[:0], cmp.Or(line, s.text)
	return line
}

// forget forgets the last line: what a login says is no reason for what happens later.
func (s *stderrLines) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = ""
}

func (s *stderrLines) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}
