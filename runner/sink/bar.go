package sink

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/task"
)

const (
	barWidth = 40 // columns of the bar itself, at most
	barLeast = 8  // columns below which there is no bar, only figures
)

// The figures of a progress line, in the order in which they are shown.
const (
	figName = iota
	figCount
	figDone
	figRunning
	figFailed
	figRate
	figETA
	figBlocking
	figures
)

// dropped is the order in which figures go as the terminal gets narrower. The
// count stays.
var dropped = [...]int{figBlocking, figRate, figRunning, figName, figETA, figDone, figFailed}

// figures are the parts of the progress line, which is made by joining them.
func (t *Terminal) figures(now time.Time) []string {
	s := &t.stats
	f := make([]string, figures)
	f[figName] = "crew: "
	f[figCount] = strconv.FormatInt(s.Finished(), 10)
	if s.InputEnd {
		f[figCount] += "/" + strconv.FormatInt(s.Admitted, 10)
	}
	f[figDone] = " done"
	f[figRunning] = fmt.Sprintf(", %d running", s.Running)
	f[figFailed] = fmt.Sprintf(", %d failed", s.Failed())
	if t.blocking != nil {
		f[figBlocking] = ", " + harmless(t.blocking.Text(now))
	}
	speed := s.Rate(now)
	if speed == 0 {
		return f
	}
	f[figRate] = ", " + rate(speed)
	if left := s.Admitted - s.Finished(); s.InputEnd && left > 0 {
		eta := time.Duration(float64(left) / speed * float64(time.Second))
		f[figETA] = ", eta " + eta.Round(time.Second).String()
	}
	return f
}

func rate(perSecond float64) string {
	switch {
	case perSecond >= 10:
		return strconv.FormatFloat(perSecond, 'f', 0, 64) + "/s"
	case perSecond >= 0.1:
		return strconv.FormatFloat(perSecond, 'f', 1, 64) + "/s"
	}
	return strconv.FormatFloat(perSecond*60, 'f', 1, 64) + "/min"
}

// fit is the progress line for a terminal of the given width: what the width
// has no room for is left out. The last column stays free, since terminals
// differ in what they do after it.
func fit(f []string, s *task.Stats, width int) string {
	width--
	line := strings.Join(f, "")
	for _, d := range dropped {
		if len(line) <= width {
			break
		}
		f[d] = ""
		line = strings.TrimPrefix(strings.Join(f, ""), ", ")
	}
	if len(line) > width {
		return ""
	}
	const around = len("  100% []")
	if room := min(width-len(line)-around, barWidth); s.InputEnd && room >= barLeast {
		return meter(line, s.Finished(), s.Admitted, room)
	}
	return line
}

// bar is what stands on the last line of the terminal. It is used inside
// Screen.Print alone.
type bar struct {
	tty     *os.File
	shown   bool
	drawn   time.Time
	midLine bool // what was last written to the terminal did not end its line
}

// put draws line over what stands there.
func (b *bar) put(line string, now time.Time) {
	patient{b.tty}.Write([]byte("\r" + line + "\x1b[K"))
	b.shown, b.drawn = true, now
}

func (b *bar) clear() {
	if b.shown {
		patient{b.tty}.Write([]byte("\r\x1b[K"))
		b.shown = false
	}
}

// overBar is a stream that ends on the terminal of the bar. The first write
// takes the bar off, so a stream that goes elsewhere leaves it standing.
type overBar struct {
	file *os.File // not embedded: its ReadFrom would write under the bar
	bar  *bar
}

// Write writes p where the bar was.
func (o overBar) Write(p []byte) (int, error) {
	o.bar.clear()
	n, err := o.file.Write(p)
	if n > 0 {
		o.bar.midLine = p[n-1] != '\n'
	}
	return n, err
}

// SyscallConn is the file's, for those who wait until it takes more.
func (o overBar) SyscallConn() (syscall.RawConn, error) { return o.file.SyscallConn() }

// columns is the width of the terminal at this moment.
func columns(tty *os.File) int {
	const unknown = 80
	size, err := unix.IoctlGetWinsize(int(tty.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return unknown
	}
	return int(size.Col)
}
