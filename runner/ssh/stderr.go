package ssh

import (
	"bytes"
	"strings"
	"sync/atomic"

	"crew/runner/task"
)

// mostLine limits the bytes of a line that are shown.
const mostLine = 500

// stderrLines takes what ssh and a worker write to stderr. It keeps the last line that is
// not blank, which may be the reason for a failure, and shows lines while live. Only one
// goroutine may call Write.
type stderrLines struct {
	show func(string)
	live atomic.Bool
	last atomic.Value // a string
	part []byte       // of a line that has not ended
}

// Write takes a part of the text.
func (s *stderrLines) Write(p []byte) (int, error) {
	for part := range bytes.Lines(p) {
		s.part = append(s.part, part[:min(len(part), mostLine-len(s.part))]...)
		if part[len(part)-1] != '\n' {
			break // more of the line comes with the next call
		}
		line := strings.TrimPrefix(task.Printable(strings.TrimSpace(string(s.part))), "crew: ")
		s.part = s.part[:0]
		if line == "" {
			continue
		}
		s.last.Store(line)
		if s.live.Load() {
			s.show(line)
		}
	}
	return len(p), nil
}
