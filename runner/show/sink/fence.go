package sink

import (
	"io"
	"os"
	"regexp"
	"sync"
	"time"

	"crew/runner/exec/kernel"
)

// Fence is a pair of lines in the log of a CI server, which obeys nothing that stands
// between them. The zero Fence is none.
type Fence struct{ Stop, Resume string }

// readWithin is how long a stream waits for the reader of the other one.
const readWithin = time.Second

// FenceOwnLines has lines of crew's own be fenced if they might hold a command to the CI server,
// and the log's reader see stdout and stderr in the order in which they are written.
// It must be called before anything is printed.
func (s *Screen) FenceOwnLines(f Fence) {
	s.fence, s.inOrder = f, !s.together()
}

// FenceOutput fences all that is shown from now on, until it calls the returned function. If
// raw, tasks write by themselves, so nobody knows whether they have ended their last line.
// It must be called before anything is printed.
func (s *Screen) FenceOutput(f Fence, raw bool) (open func()) {
	if raw {
		f.Resume = "\n" + f.Resume
	}
	both := func(line string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_, _ = io.WriteString(s.out, line)
		if !s.together() {
			_, _ = io.WriteString(s.err, line)
		}
	}
	both(f.Stop)
	s.enclosure = f
	return func() { both(f.Resume) }
}

// CICommands prints commands to the CI server on stderr, outside of any fence. Errors are
// ignored.
func (s *Screen) CICommands(lines string) {
	if lines != "" {
		s.say(s.enclosure.Resume + lines + s.enclosure.Stop)
	}
}

// fenced returns lines of crew's own, with the fence around them if they need one.
func (s *Screen) fenced(lines string) string {
	if s.fence.Stop == "" || s.enclosure.Stop != "" || !commands().MatchString(lines) {
		return lines
	}
	return s.fence.Stop + lines + s.fence.Resume
}

// commands matches where GitHub Actions might find a command. One of the old form may stand anywhere
// in a line, and white space before one of the new.
var commands = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`##\[|(?m:^|\r)[\s\v\x{85}\pZ]*::`)
})

// awaitRead waits until a pipe has been read, but not for ever, nor where that does not show.
func (s *stream) awaitRead() {
	f, ok := s.w.(*os.File)
	if !ok {
		return
	}
	for end := time.Now().Add(readWithin); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if kernel.Pending(int(f.Fd())) == 0 || abandoned(f) {
			return
		}
	}
}
