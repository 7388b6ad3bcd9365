package sink

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

var testFence = Fence{"<\n", ">\n"}

// scene is a screen and the sinks that write to it.
type scene struct {
	t    *testing.T
	page page
	tty  tty // stderr, if it is a terminal
	file *os.File
	s    *Screen
	cfg  TerminalConfig

	now   time.Time
	sinks []interface {
		Consume(events []task.Event) error
		Close(task.Stats) error
	}
	lastID uint64
	leave  func() // returned by FenceOutput
}

// TestScenes runs the stories of testdata/scenes.txt. Each has steps of a scene and, after >, what
// it then shows.
func TestScenes(t *testing.T) {
	t.Setenv("FORCE_COLOR", "")
	crewtest.Stories(t, "testdata/scenes.txt", func(t *testing.T, steps []string) {
		c := &scene{t: t, now: dawn}
		c.s = c.page.screen()
		c.cfg.Now = func() time.Time { return c.now }
		for _, step := range steps {
			op, args, _ := strings.Cut(step, " ")
			if where, want, is := strings.Cut(args, " "); is && op == ">" {
				want, err := strconv.Unquote(want)
				require.NoError(t, err, step)
				require.Equal(t, want, c.shows(where), step)
			} else if text, err := strconv.Unquote(args); err == nil {
				c.print(op, text)
			} else {
				c.do(op, args)
			}
		}
	})
}

// print prints a text of a task, or of crew itself.
func (c *scene) print(how, text string) {
	map[string]func(string){
		"notice": c.s.Notice, "say": c.s.Say, "urge": c.s.TryUrgent, "command": c.s.CICommands,
		"last":   func(text string) { c.s.Urgent(text) },
		"status": func(text string) { c.s.Urgent(text) },
		"out":    func(text string) { show(c.t, c.s, 0, text) },
		"err":    func(text string) { show(c.t, c.s, 1, text) },
	}[how](text)
}

// do takes a step that sets up a part of the scene, or in which something happens.
func (c *scene) do(op, args string) {
	n, _ := strconv.Atoi(strings.Fields(args + " 0")[0])
	switch op {
	case "terminal": // stderr, and perhaps stdout, with a width
		c.tty = newTTY(c.t, n)
		out := io.Writer(io.Discard)
		if strings.Contains(args, "both") {
			out = c.tty.File
		}
		c.s = NewScreen(out, c.tty.File)
	case "file": // like > file 2>&1
		var err error
		c.file, err = os.Create(filepath.Join(c.t.TempDir(), "both"))
		require.NoError(c.t, err)
		fd, err := unix.Dup(int(c.file.Fd()))
		require.NoError(c.t, err)
		c.s = NewScreen(c.file, os.NewFile(uintptr(fd), "again"))
	case "fence":
		c.s.FenceOwnLines(testFence)
	case "enclose":
		c.leave = c.s.FenceOutput(testFence, false)
	case "leave":
		c.leave()
	case "typed":
		c.cfg.Typed = true
	case "shown":
		c.cfg.Input.Elsewhere = true
	case "progress":
		c.cfg.Progress = map[string]Progress{"auto": ProgressAuto, "always": ProgressAlways, "lines": ProgressLines, "never": ProgressNever}[args]
		c.sinks = append(c.sinks, NewTerminal(c.s, c.cfg))
	case "failures":
		f := NewFailures(c.s)
		f.now = c.cfg.Now
		c.sinks = append(c.sinks, f)
	case "verbose":
		v := NewVerbose(c.s)
		v.WhyOnly = args == "why"
		c.sinks = append(c.sinks, v)
	default:
		c.happen(op, args)
	}
}

// happen passes events to the sinks.
func (c *scene) happen(op, args string) {
	n, _ := strconv.Atoi(args)
	switch op {
	case "run": // numbers of done, failed and all tasks
		var done, failed, total int
		_, err := fmt.Sscan(args, &done, &failed, &total)
		require.NoError(c.t, err)
		c.consume(progressEvents(done, failed, total, strings.Contains(args, "end"))...)
	case "events":
		var list []happening
		require.NoError(c.t, json.Unmarshal([]byte(args), &list))
		c.consume(eventsOf(c.t, list)...)
	case "digest": // of a run with these events
		var list []happening
		require.NoError(c.t, json.Unmarshal([]byte(args), &list))
		closeDigest(c.t, NewDigest(c.s, Input{}, RerunConfig{}), eventsOf(c.t, list))
	case "fail": // a number of tasks, one after another
		var events []task.Event
		for range n {
			c.lastID++
			events = append(events, ended(c.lastID, task.Result{Outcome: task.Exit, Code: 7}))
		}
		c.consume(events...)
	case "continued": // after an hour in the background
		c.consume(task.Event{Kind: task.Continued, At: c.now, Wait: time.Hour})
	case "after":
		d, err := time.ParseDuration(args)
		require.NoError(c.t, err)
		c.now = c.now.Add(d)
		c.consume()
	case "close":
		for _, s := range c.sinks {
			require.NoError(c.t, s.Close(task.Stats{}))
		}
	default:
		c.t.Fatalf("no step: %s", op)
	}
}

func (c *scene) consume(events ...task.Event) {
	for _, s := range c.sinks {
		require.NoError(c.t, s.Consume(events))
	}
}

// shows returns what was shown since the last call. For a terminal, these are its final lines, and
// how often the bar was drawn and removed.
func (c *scene) shows(where string) string {
	switch where {
	case "file":
		return crewtest.ReadFile(c.t, c.file.Name())
	case "terminal":
		written := c.tty.all()
		lines := strings.Join(screenOf(c.t, written, Columns(c.tty.File)), "|")
		removed := strings.Count(written, eraseBar)
		return fmt.Sprintf("%s|drawn %d, removed %d", lines, strings.Count(written, "\x1b[J")-removed, removed)
	}
	b := map[string]interface {
		String() string
		Reset()
	}{"out": &c.page.out, "err": &c.page.err}[where]
	defer b.Reset()
	return b.String()
}
