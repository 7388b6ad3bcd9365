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

// Progress says when to show the progress of the run.
type Progress uint8

// The values of --progress.
const (
	ProgressAuto   Progress = iota // a bar if stderr is a terminal, otherwise nothing
	ProgressAlways                 // a bar if stderr is a terminal, otherwise a line every minute and at the end
	ProgressLines                  // a bar if stderr is a terminal, otherwise a line every minute, and at the end if there were others
	ProgressNever                  // nothing
)

const (
	barEvery       = 200 * time.Millisecond // between two draws of the bar
	redrawAfter    = 10 * time.Millisecond  // the same if other output has removed the bar
	lineEvery      = time.Minute            // between two plain lines
	blockedEvery   = 10 * time.Second       // between two messages about why nothing starts
	firstCountWait = 10 * time.Millisecond  // how long the first draw waits for the number of tasks
)

// TerminalConfig configures a Terminal. The zero value is --progress auto.
type TerminalConfig struct {
	Progress Progress
	Explain  bool // say why nothing starts; a lack of workers is always reported
	Silent   bool // leave out the message, printed once, that tasks wait for load or memory
	Input    Input
	Typed    bool             // records are typed on the terminal: no bar until they end
	Raw      bool             // tasks write to stdout and stderr directly, so there is no bar
	Now      func() time.Time // nil means time.Now
}

// Terminal shows progress and messages on stderr: notices, how many tasks a drain waits for, and
// that tasks are being ended.
//
// It has no goroutine and no timer. Consume decides by the clock whether to draw, so an empty batch
// now and then keeps the bar up to date. It ignores errors of stderr.
type Terminal struct {
	// configuration

	screen   *Screen
	cfg      TerminalConfig
	bar      *bar          // nil if no bar is used
	interval time.Duration // between two draws or two plain lines; 0 if there is no progress

	// state

	stats      task.Stats
	running    runningTasks        // kept only if progress is shown
	blocking   *task.Blocking      // why nothing starts; nil if something does
	explained  time.Time           // when that was last printed
	seenCauses map[task.Cause]bool // causes that tasks have waited for; the first wait for load or memory is reported
	due        time.Time           // time of the next draw or line; zero before the first Consume
	lastLine   bool                // Close prints a plain line
}

// NewTerminal returns a Terminal that writes to screen. If it shows a bar, writes to the terminal
// then remove the bar first, so call NewTerminal before anything is printed.
func NewTerminal(screen *Screen, cfg TerminalConfig) *Terminal {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	t := &Terminal{screen: screen, cfg: cfg, running: runningTasks{}, seenCauses: map[task.Cause]bool{}}
	terminal := screen.err.terminal
	screen.sharedTerminal = cfg.Raw && terminal
	switch {
	case cfg.Raw || cfg.Progress == ProgressNever:
	case terminal:
		t.bar, t.interval = &bar{screen: screen, tty: screen.err.w.(*os.File)}, barEvery
		screen.bar, screen.err.overBar, screen.out.overBar = t.bar, true, isTerminal(screen.out.w)
	case cfg.Progress != ProgressAuto:
		t.interval, t.lastLine = lineEvery, cfg.Progress != ProgressLines
	}
	return t
}

// Consume counts events, prints notices, and draws progress if it is due. It never returns an
// error.
func (t *Terminal) Consume(events []task.Event) error {
	for i := range events {
		e := &events[i]
		t.stats.Apply(e)
		if t.interval > 0 {
			t.running.apply(e, t.stats.Clock.At(e.At))
		}
		if s := t.notice(e); s != "" {
			t.screen.Notice(s)
		}
	}
	if t.interval == 0 {
		return nil
	}
	now := t.cfg.Now()
	switch {
	case t.due.IsZero(): // draw nothing if the run ends soon
		t.due = now.Add(t.interval)
	case t.stats.Admitted == 0, t.cfg.Typed && !t.stats.InputEnd:
	case t.bar != nil:
		t.draw(now)
	case !now.Before(t.due):
		t.due, t.lastLine = now.Add(t.interval), true
		t.printLine(now)
	}
	return nil
}

// Close removes the bar or prints a last plain line, and ends colours that tasks have left active. It
// never returns an error.
func (t *Terminal) Close(task.Stats) error {
	if t.bar == nil && t.lastLine && t.stats.Admitted > 0 {
		t.printLine(t.cfg.Now())
	}
	t.screen.mu.Lock()
	defer t.screen.mu.Unlock()
	if t.bar != nil {
		t.bar.clear()
	}
	t.screen.resetColoursLocked()
	return nil
}

// printLine prints progress as a plain line.
func (t *Terminal) printLine(now time.Time) {
	const columns = 100 // for the names
	line := strings.Join(t.figures(t.cfg.Input.Tally(&t.stats, firstCountWait), now), "")
	if names := t.longestRunning(columns, now); names != "" {
		line += "; longest: " + names
	}
	t.screen.Say(line + "\n")
}

// notice returns the message about an event, or "".
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
		first := (b.By == task.ByLoad || b.By == task.ByMemory) && !t.seenCauses[b.By] && !t.cfg.Silent
		t.seenCauses[b.By] = true
		if !first && e.At.Sub(t.explained) < blockedEvery {
			return ""
		} else if first || t.cfg.Explain && b.By != task.ByInput || b.None || b.By == task.ByWorkers {
			t.explained = e.At
			return b.Text(e.At)
		}
	case task.Draining, task.Stopping:
		if t.cfg.Input.Elsewhere { // no task ends, only this process
			return ""
		}
		doing, next := "ending"+why+": ", "; Ctrl-C again kills them"
		if e.Kind == task.Draining {
			doing, next = "draining"+why+": no more tasks start; waiting for ", "; Ctrl-C again ends them"
		}
		switch {
		case e.Kind == task.Draining && (e.Text == "" || t.stats.InputEnd && t.stats.Finished() == t.stats.Admitted):
			// Either the next message says that tasks are being ended or that the run cannot continue, or
			// the last task caused the drain, so there is nothing to wait for.
			return ""
		case e.Kind == task.Draining && n == 0:
			return "draining" + why + ": no task is running" + unretriedText(e)
		case n == 0:
			return ""
		case e.Text != "SIGINT":
			next = ""
		}
		return doing + task.Count(n, "running task") + idList(e.Running, n) + unretriedText(e) + next
	}
	return ""
}

// unretriedText says how many tasks lose their retry because the run ends.
func unretriedText(e *task.Event) string {
	if e.Retries == 0 {
		return ""
	}
	return "; not retrying " + task.Count(int64(e.Retries), "failed task")
}

// brokenPipe is the Text of a drain or stop because nothing reads stdout any more. Such a run ends
// without a message, as other programs in a pipe do.
const brokenPipe = "SIGPIPE"

// idList returns some of n IDs in parentheses.
func idList(some []uint64, n int64) string {
	if len(some) == 0 {
		return ""
	}
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(some), " ", ", "), "[]")
	if n > int64(len(some)) {
		text += ", …"
	}
	return " (" + text + ")"
}

// draw draws the bar every barEvery, or sooner if a line has removed it, so that it seems to stay
// below the lines. It does nothing while another program has the terminal.
func (t *Terminal) draw(now time.Time) {
	t.screen.mu.Lock()
	defer t.screen.mu.Unlock()
	b := t.bar
	removed := !b.shown && !b.drawn.IsZero() && now.Sub(b.drawn) >= redrawAfter
	if now.Before(t.due) && !removed {
		return
	}
	if t.due = now.Add(t.interval); !mayWrite(b.tty) {
		b.shown, b.drawn = false, time.Time{}
		return
	}
	b.draw(t.lines(now), now)
}

// lines returns the lines of the bar: the state of the run and, if there is room, the tasks that
// have been running longest.
func (t *Terminal) lines(now time.Time) []string {
	rows, columns := size(t.bar.tty)
	wait := firstCountWait
	if !t.bar.drawn.IsZero() {
		wait = 0
	}
	n := t.cfg.Input.Tally(&t.stats, wait)
	lines := []string{fit(t.figures(n, now), n, columns)}
	rows -= 2 // the first line, and one for output of tasks
	columns--
	const before = "crew: longest: "
	if rows < 1 {
		return lines
	}
	if names := t.longestRunning(columns-len(before), now); names != "" {
		lines = append(lines, before+names)
	}
	return lines
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
