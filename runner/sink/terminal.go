package sink

import (
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"crew/runner/task"
)

// Progress says when the progress of the run is shown.
type Progress uint8

// The values of --progress.
const (
	ProgressAuto   Progress = iota // a bar where stderr is a terminal, else nothing
	ProgressAlways                 // a bar, or a plain line every few seconds
	ProgressNever                  // nothing
)

const (
	barEvery     = 200 * time.Millisecond // between two looks of the bar
	barBack      = 10 * time.Millisecond  // at least between two draws when lines take the bar off
	lineEvery    = 5 * time.Second        // between two plain lines
	blockedAgain = 10 * time.Second       // between two lines about why nothing starts
)

// TerminalConfig is how a Terminal behaves. The zero value is --progress auto.
type TerminalConfig struct {
	Progress Progress
	Explain  bool             // a line says why nothing starts, when that is so for a while
	Now      func() time.Time // the clock; nil is time.Now
}

// Terminal shows how far the run is, on stderr, and says what crew itself has
// to say: what a drain waits for, that tasks are being ended, and notices.
//
// It has no goroutine and no timer: Consume decides by the clock whether
// something is to be drawn, so an empty batch now and then keeps the bar alive.
// Nothing that it writes is worth ending a run for: errors of stderr are
// ignored.
type Terminal struct {
	// configuration

	screen  *Screen
	now     func() time.Time
	explain bool
	plain   bool // lines instead of a bar
	bar     *bar // nil where none is shown

	// state

	stats     task.Stats
	blocking  *task.Blocking // why nothing starts; nil where something does
	explained time.Time      // when that was last said
	next      time.Time      // when progress is due; set by the first Consume
}

// NewTerminal makes a Terminal that writes through screen. Where a bar is to be
// shown, which takes a terminal as stderr, the screen's streams are changed so
// that whatever is written to the terminal takes the bar off first; it is
// therefore called before anything is printed.
func NewTerminal(screen *Screen, cfg TerminalConfig) *Terminal {
	t := &Terminal{screen: screen, now: cfg.Now, explain: cfg.Explain}
	if t.now == nil {
		t.now = time.Now
	}
	if cfg.Progress == ProgressNever {
		return t
	}
	tty, ok := screen.err.(*os.File)
	if !ok || !isTerminal(tty) || os.Getenv("TERM") == "dumb" {
		t.plain = cfg.Progress == ProgressAlways
		return t
	}
	t.bar = &bar{tty: tty}
	screen.err = overBar{tty, t.bar}
	if out, ok := screen.out.(*os.File); ok && isTerminal(out) {
		screen.out = overBar{out, t.bar}
	}
	return t
}

// Consume counts events, prints what has to be said, and draws when it is time.
// It never returns an error.
func (t *Terminal) Consume(events []task.Event) error {
	for i := range events {
		t.stats.Apply(&events[i])
		if s := t.notice(&events[i]); s != "" {
			t.print(s)
		}
	}
	if !t.plain && t.bar == nil {
		return nil
	}
	now := t.now()
	switch {
	case t.next.IsZero():
		// Nothing is drawn for a run that is over at once.
		t.next = now.Add(t.every())
	case t.stats.Admitted == 0:
	case t.plain && !now.Before(t.next):
		t.next = now.Add(lineEvery)
		t.print(strings.Join(t.figures(now), ""))
	case t.bar != nil:
		t.draw(now)
	}
	return nil
}

// Close takes the bar off. With plain lines it prints the last of them. It
// never returns an error.
func (t *Terminal) Close(task.Stats) error {
	switch {
	case t.plain && t.stats.Admitted > 0:
		t.print(strings.Join(t.figures(t.now()), ""))
	case t.bar != nil:
		t.screen.Print(func(_, _ io.Writer) error { t.bar.clear(); return nil })
	}
	return nil
}

func (t *Terminal) every() time.Duration {
	if t.plain {
		return lineEvery
	}
	return barEvery
}

func (t *Terminal) print(line string) { t.screen.say(line + "\n") }

// notice is what is to be said about an event, or nothing.
func (t *Terminal) notice(e *task.Event) string {
	why := ""
	if e.Text != "" && e.Text != "SIGINT" {
		why = " (" + harmless(e.Text) + ")"
	}
	if e.Text == brokenPipe && e.Kind != task.Notice {
		return ""
	}
	n := max(t.stats.Running, int64(len(e.Running)))
	switch e.Kind {
	case task.Notice:
		return "crew: " + harmless(e.Text)
	case task.Blocked:
		t.blocking = e.Blocking
		if t.explain && e.Blocking != nil && e.Blocking.By != task.ByInput && e.At.Sub(t.explained) >= blockedAgain {
			t.explained = e.At
			return "crew: " + harmless(e.Blocking.Text(e.At))
		}
	case task.Draining:
		if e.Text == "" {
			// It only goes before something else that is said: tasks being
			// ended, or why the run cannot go on.
			return ""
		}
		if t.stats.InputEnd && t.stats.Finished() == t.stats.Admitted {
			return "" // the last task was the reason: there is nothing to hold back
		}
		s := "crew: draining" + why + ": "
		given := ""
		if e.Retries > 0 {
			given = "; not retrying " + count(int64(e.Retries), "failed task")
		}
		if n == 0 {
			return s + "no task is running" + given
		}
		s += "waiting for " + count(n, "running task") + ids(e.Running, n) + given
		if e.Text == "SIGINT" {
			s += "; Ctrl-C again ends them"
		}
		return s
	case task.Stopping:
		if n > 0 {
			return "crew: ending " + count(n, "running task") + why
		}
	}
	return ""
}

// brokenPipe is the Text of a drain or stop because nobody reads stdout any more. Such
// a run ends without a word, as every program in a pipe does.
const brokenPipe = "SIGPIPE"

func ids(running []uint64, n int64) string {
	if len(running) == 0 {
		return ""
	}
	var b strings.Builder
	sep := " ("
	for _, id := range running {
		b.WriteString(sep)
		b.WriteString(strconv.FormatUint(id, 10))
		sep = ", "
	}
	if n > int64(len(running)) {
		b.WriteString(", …")
	}
	return b.String() + ")"
}

// draw puts the bar on the terminal when it is due: a new one every barEvery,
// sooner where a line has taken it off, so that it seems to stand still below
// the lines.
func (t *Terminal) draw(now time.Time) {
	t.screen.Print(func(_, _ io.Writer) error {
		b := t.bar
		off := !b.shown && now.Sub(b.drawn) >= barBack && !b.drawn.IsZero()
		if b.midLine || (now.Before(t.next) && !off) {
			return nil
		}
		t.next = now.Add(barEvery)
		b.put(fit(t.figures(now), &t.stats, columns(b.tty)), now)
		return nil
	})
}

func isTerminal(w io.Writer) bool {
	switch w := w.(type) {
	case *os.File:
		return isatty.IsTerminal(w.Fd())
	case overBar:
		return true
	}
	return false
}
