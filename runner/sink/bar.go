package sink

import (
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"crew/runner/task"
)

const (
	barWidth = 40 // columns of the bar itself, at most
	barLeast = 8  // fewer columns than this are not worth a bar
)

// figure is a part of the progress line. As the terminal gets narrower, figures are
// dropped in the order of drop, which is 1 to dropAll; a figure with 0 stays.
type figure struct {
	text string
	drop int
}

const dropAll = 7

// figures returns the parts of the progress line, in the order in which they are
// joined.
func (t *Terminal) figures(now time.Time) []figure {
	s := &t.stats
	n := strconv.FormatInt(s.Finished(), 10)
	if s.InputEnd {
		n += "/" + strconv.FormatInt(s.Admitted, 10)
	}
	f := []figure{
		{"crew: ", 4}, {n, 0}, {" done", 6},
		{fmt.Sprintf(", %d running", s.Running), 3}, {fmt.Sprintf(", %d failed", s.Failed()), 7},
	}
	if speed := s.Rate(now); speed > 0 {
		f = append(f, figure{", " + rate(speed), 2})
		if left := s.Admitted - s.Finished(); s.InputEnd && left > 0 {
			eta := time.Duration(float64(left) / speed * float64(time.Second))
			f = append(f, figure{", eta " + eta.Round(time.Second).String(), 5})
		}
	}
	if t.blocking != nil {
		f = append(f, figure{", " + harmless(t.blocking.Text(now)), 1})
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

// join returns the text of the figures that are left after some were dropped.
func join(f []figure, dropped int) (line string) {
	for _, x := range f {
		if x.drop == 0 || x.drop > dropped {
			line += x.text
		}
	}
	return line
}

// fit returns the progress line for a terminal of the given width, without the
// figures for which there is no room. The last column stays free, since terminals
// differ in what they do after it.
func fit(f []figure, s *task.Stats, width int) string {
	width--
	line := join(f, 0)
	for dropped := 1; len(line) > width; dropped++ {
		if dropped > dropAll {
			return ""
		}
		line = join(f, dropped)
	}
	const around = len("  100% []")
	if room := min(width-len(line)-around, barWidth); s.InputEnd && room >= barLeast {
		return meter(line, s.Finished(), s.Admitted, room)
	}
	return line
}

// bar is the last line of the terminal. It is used inside Screen.Print alone.
type bar struct {
	tty     *os.File
	shown   bool
	drawn   time.Time
	midLine bool // the last write to the terminal did not end its line
}

// put draws line over the current one.
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

// overBar is a stream that goes to the terminal of the bar. A write to it removes
// the bar first; a stream that goes elsewhere leaves the bar alone.
type overBar struct {
	file *os.File // not embedded: its ReadFrom would not remove the bar
	bar  *bar
}

func (o overBar) Write(p []byte) (int, error) {
	o.bar.clear()
	n, err := o.file.Write(p)
	if n > 0 {
		o.bar.midLine = p[n-1] != '\n'
	}
	return n, err
}

// SyscallConn lets poll wait for the file.
func (o overBar) SyscallConn() (syscall.RawConn, error) { return o.file.SyscallConn() }

// columns returns the current width of the terminal.
func columns(tty *os.File) int {
	const unknown = 80
	size, err := unix.IoctlGetWinsize(int(tty.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 {
		return unknown
	}
	return int(size.Col)
}
