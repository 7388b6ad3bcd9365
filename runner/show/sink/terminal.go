package sink

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/mattn/go-isatty"

	"crew/runner/decide/task"
)

// Progress says when the progress of the run is shown.
type Progress uint8

// The values of --progress.
const (
	ProgressAuto   Progress = iota // a bar if stderr is a terminal, else nothing
	ProgressAlways                 // a bar if stderr is a terminal, else a plain line a minute and at the end
	ProgressLines                  // a bar if stderr is a terminal, else a plain line a minute, but none before
	ProgressNever                  // nothing
)

const (
	barEvery     = 200 * time.Millisecond // between two draws of the bar
	barBack      = 10 * time.Millisecond  // the same, at least, if other output has removed it
	lineEvery    = time.Minute            // between two plain lines
	blockedAgain = 10 * time.Second       // between two lines about why nothing starts
	countFirst   = 10 * time.Millisecond  // how long the first look waits for the number of tasks
)

// TerminalConfig configures a Terminal. The zero value is --progress auto.
type TerminalConfig struct {
	Progress Progress
	Explain  bool             // if nothing starts for a while, say why; that there is no worker is always said
	Silent   bool             // do not say once that tasks wait for the load or for memory
	Input    Input            // what is known of it
	Typed    bool             // records are typed on the terminal: no bar before their end
	Raw      bool             // tasks write to stdout and stderr themselves, so there is no bar
	Now      func() time.Time // the clock; nil is time.Now
}

// Terminal shows on stderr how far the run is, and what crew itself has to say:
// what a drain waits for, that tasks are being ended, and notices.
//
// It has no goroutine and no timer: Consume decides by the clock whether to draw,
// so an empty batch now and then keeps the bar up to date. Errors of stderr are
// ignored.
type Terminal struct {
	// configuration

	screen *Screen
	cfg    TerminalConfig
	bar    *bar          // nil if none is shown
	every  time.Duration // between two draws of the bar or two plain lines; 0 for neither

	// state

	stats     task.Stats
	load      load                // kept only if progress is shown
	blocking  *task.Blocking      // why nothing starts; nil if something does
	explained time.Time           // when that was last printed
	held      map[task.Cause]bool // tasks have waited for this; that they do for a figure of the machine is said once
	next      time.Time           // when progress is due; zero before the first Consume
	last      bool                // Close prints a plain line
}

// NewTerminal returns a Terminal that writes through screen. If it shows a bar, it
// has writes to the terminal remove the bar first. So it must be called before
// anything is printed.
func NewTerminal(screen *Screen, cfg TerminalConfig) *Terminal {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	t := &Terminal{screen: screen, cfg: cfg, load: load{}, held: map[task.Cause]bool{}}
	terminal := screen.err.terminal
	screen.shared = cfg.Raw && terminal
	switch {
	case cfg.Raw || cfg.Progress == ProgressNever:
	case terminal:
		t.bar, t.every = &bar{screen: screen, tty: screen.err.w.(*os.File)}, barEvery
		screen.bar, screen.err.overBar, screen.out.overBar = t.bar, true, isTerminal(screen.out.w)
	case cfg.Progress != ProgressAuto:
		t.every, t.last = lineEvery, cfg.Progress != ProgressLines
	}
	return t
}

// Consume counts events, prints notices, and draws progress if it is due. It never
// returns an error.
func (t *Terminal) Consume(events []task.Event) error {
	for i := range events {
		e := &events[i]
		t.stats.Apply(e)
		if t.every > 0 {
			t.load.apply(e, t.stats.Clock.At(e.At))
		}
		if s := t.notice(e); s != "" {
			t.screen.Say(t.folded("crew: " + task.Printable(s)))
		}
	}
	if t.every == 0 {
		return nil
	}
	now := t.cfg.Now()
	switch {
	case t.next.IsZero(): // nothing is drawn if the run is over soon
		t.next = now.Add(t.every)
	case t.stats.Admitted == 0, t.cfg.Typed && !t.stats.InputEnd:
	case t.bar != nil:
		t.draw(now)
	case !now.Before(t.next):
		t.next, t.last = now.Add(t.every), true
		t.printLine(now)
	}
	return nil
}

// Close removes the bar, or prints a last plain line, and ends the colours that tasks have
// left on. It never returns an error.
func (t *Terminal) Close(task.Stats) error {
	if t.bar == nil && t.last && t.stats.Admitted > 0 {
		t.printLine(t.cfg.Now())
	}
	t.screen.mu.Lock()
	defer t.screen.mu.Unlock()
	if t.bar != nil {
		t.bar.clear()
	}
	t.screen.uncolour()
	return nil
}

// printLine prints progress as a line.
func (t *Terminal) printLine(now time.Time) {
	const columns = 100 // of the names
	line := strings.Join(t.figures(t.cfg.Input.tally(&t.stats, countFirst), now), "")
	if names := t.longest(columns, now); names != "" {
		line += "; longest: " + names
	}
	t.screen.Say(line + "\n")
}

// notice returns what there is to say about an event, or "".
func (t *Terminal) notice(e *task.Event) string {
	if e.Kind == task.Notice {
		return e.Text
	}
	if e.Text == brokenPipe {
		return ""
	}
	why := ""
	if e.Text != "" && e.Text != "SIGINT" {
		why = " (" + e.Text + ")"
	}
	n := max(t.stats.Running, int64(len(e.Running)))
	switch e.Kind {
	case task.Blocked:
		t.blocking = e.Blocking
		b := e.Blocking
		if b == nil {
			return ""
		}
		first := (b.By == task.ByLoad || b.By == task.ByMemory) && !t.held[b.By] && !t.cfg.Silent
		t.held[b.By] = true
		if !first && e.At.Sub(t.explained) < blockedAgain {
			return ""
		} else if first || t.cfg.Explain && b.By != task.ByInput || b.None || b.By == task.ByWorkers {
			t.explained = e.At
			return b.Text(e.At)
		}
	case task.Draining, task.Stopping:
		if t.cfg.Input.Elsewhere { // nothing ends but that
			return ""
		}
		doing, next := "ending"+why+": ", "; Ctrl-C again kills them"
		if e.Kind == task.Draining {
			doing, next = "draining"+why+": no more tasks start; waiting for ", "; Ctrl-C again ends them"
		}
		switch {
		case e.Kind == task.Draining && (e.Text == "" || t.stats.InputEnd && t.stats.Finished() == t.stats.Admitted):
			// Another message follows, that tasks are ended or the run cannot go on; or the
			// last task was the reason, so nothing is left to drain.
			return ""
		case e.Kind == task.Draining && n == 0:
			return "draining" + why + ": no task is running" + unretried(e)
		case n == 0:
			return ""
		case e.Text != "SIGINT":
			next = ""
		}
		return doing + task.Count(n, "running task") + ids(e.Running, n) + unretried(e) + next
	}
	return ""
}

// folded ends a line, and breaks it between words where it is longer than the terminal is
// wide.
func (t *Terminal) folded(line string) (text string) {
	for columns := Columns(t.screen.err.w); len(line) > columns; {
		at := strings.LastIndexByte(line[:columns+1], ' ')
		if at < len("crew:  ") {
			break
		}
		text += line[:at] + "\n"
		line = "crew:  " + line[at:]
	}
	return text + line + "\n"
}

// unretried says how many tasks lose their retry because the run ends.
func unretried(e *task.Event) string {
	if e.Retries == 0 {
		return ""
	}
	return "; not retrying " + task.Count(int64(e.Retries), "failed task")
}

// brokenPipe is the Text of a drain or stop because nobody reads stdout any more.
// Such a run ends without a message, as programs in a pipe do.
const brokenPipe = "SIGPIPE"

// ids returns some of n IDs in parentheses.
func ids(some []uint64, n int64) string {
	if len(some) == 0 {
		return ""
	}
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(some), " ", ", "), "[]")
	if n > int64(len(some)) {
		text += ", …"
	}
	return " (" + text + ")"
}

// draw draws the bar every barEvery, and sooner if a line has removed it, so the
// bar seems to stay below the lines. While another program has the terminal, it does not.
func (t *Terminal) draw(now time.Time) {
	t.screen.mu.Lock()
	defer t.screen.mu.Unlock()
	b := t.bar
	removed := !b.shown && !b.drawn.IsZero() && now.Sub(b.drawn) >= barBack
	if now.Before(t.next) && !removed {
		return
	}
	if t.next = now.Add(t.every); !free(b.tty) {
		b.shown, b.drawn = false, time.Time{}
		return
	}
	b.put(t.lines(now), now)
}

// lines returns the lines of the bar: what is known of the run as a whole and, if
// there is room, the tasks that have run longest.
func (t *Terminal) lines(now time.Time) []string {
	rows, columns := size(t.bar.tty)
	wait := countFirst
	if !t.bar.drawn.IsZero() {
		wait = 0
	}
	n := t.cfg.Input.tally(&t.stats, wait)
	lines := []string{fit(t.figures(n, now), n, columns)}
	rows -= 2 // the first line, and one for what tasks print
	columns--
	const before = "crew: longest: "
	if rows < 1 {
		return lines
	}
	if names := t.longest(columns-len(before), now); names != "" {
		lines = append(lines, before+names)
	}
	return lines
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
