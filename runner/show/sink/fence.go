package sink

import (
	"io"
	"os"
	"regexp"
	"sync"
	"time"

	"crew/runner/exec/kernel"
)

// Fence is a pair of lines for the log of a CI server. The server ignores commands between them.
// The zero Fence is no fence.
type Fence struct{ Stop, Resume string }

// readTimeout is how long a write to one stream waits until the other one has been read.
const readTimeout = time.Second

// FenceOwnLines puts a fence around crew's own lines if they might contain a command to the CI
// server. It also makes writes wait, so that the server reads stdout and stderr in the order of
// writing. Call it before anything is printed.
func (s *Screen) FenceOwnLines(f Fence) {
	s.fence, s.inOrder = f, !s.sameTarget()
}

// FenceOutput puts a fence around everything shown until the returned function is called. raw means
// that tasks write to stdout and stderr themselves, so their last line may be unfinished. Call it
// before anything is printed.
func (s *Screen) FenceOutput(f Fence, raw bool) (open func()) {
	if raw {
		f.Resume = "\n" + f.Resume
	}
	both := func(line string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = io.WriteString(s.out, line)
		if !s.sameTarget() {
			_, _ = io.WriteString(s.err, line)
		}
	}
	both(f.Stop)
	s.enclosure = f
	return func() { both(f.Resume) }
}

// CICommands prints commands to the CI server on stderr, outside any fence. It ignores errors.
func (s *Screen) CICommands(lines string) {
	if lines != "" {
		s.print(s.enclosure.Resume + lines + s.enclosure.Stop)
	}
}

// fenced returns lines, in a fence if they need one.
func (s *Screen) fenced(lines string) string {
	if s.fence.Stop == "" || s.enclosure.Stop != "" || !ciCommands().MatchString(lines) {
		return lines
	}
	return s.fence.Stop + lines + s.fence.Resume
}

// ciCommands matches text that GitHub Actions may take for a command. The old form may be anywhere
// in a line, and the new one may follow white space.
var ciCommands = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`##\[|(?m:^|\r)[\s\v\x{85}\pZ]*::`)
})

// awaitRead waits until the pipe has been read, for at most readTimeout. It does not wait for other
// files.
func (s *stream) awaitRead() {
	if f, ok := s.w.(*os.File); ok {
		kernel.Poll(readTimeout, func() bool { return kernel.Pending(int(f.Fd())) == 0 || abandoned(f) })
	}
}
