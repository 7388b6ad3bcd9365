package sink

import (
	"io"
	"strings"
	"time"

	"crew/runner/task"
)

// statusWithin is how long a status waits for a Print.
const statusWithin = 100 * time.Millisecond

// Status prints lines on stderr as lines of crew's own. It does not wait for a Print
// that is stuck because nobody reads stdout, and then leaves the progress bar to the
// next Print.
func (s *Screen) Status(lines []string) {
	var b strings.Builder
	for _, l := range lines {
		b.WriteString("crew: " + task.Printable(l) + "\n")
	}
	text := s.fenced(b.String())
	for end := time.Now().Add(statusWithin); !s.mu.TryLock(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			_, _ = io.WriteString(patient{s.err.w}, s.clean()+text)
			return
		}
	}
	defer s.mu.Unlock()
	_, _ = io.WriteString(patient{s.err}, s.newline()+text)
}
