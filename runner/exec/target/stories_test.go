package target

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// workshop is a directory, and a task that makes files there.
type workshop struct {
	t    *testing.T
	cfg  Config
	task *task.Task
	a    *attempt
}

// Each story of testdata/stories.txt consists of steps, each followed by > and the expected state.
func TestStories(t *testing.T) {
	crewtest.Stories(t, "testdata/stories.txt", func(t *testing.T, steps []string) {
		t.Chdir(t.TempDir())
		w := &workshop{t: t}
		for _, step := range steps {
			step, want, sees := strings.Cut(step, ": ")
			words := strings.Fields(strings.TrimPrefix(step, "> "))
			for i, word := range words {
				if text, err := strconv.Unquote(word); err == nil {
					words[i] = text
				}
			}
			if sees {
				require.Equal(t, want, fmt.Sprintf("%q", w.see(words[0], words[1:])), step)
			} else {
				w.do(words[0], words[1:])
			}
		}
	})
}

// do executes a step.
func (w *workshop) do(op string, args []string) {
	var err error
	switch op {
	case "config":
		w.cfg = map[string]Config{"plain": plain, "journal": journal, "always": {Always: true}, "dry": {DryRun: true}}[args[0]]
		w.cfg.Dir = strings.Join(args[1:], "")
	case "task": // of targets, and behind < what they are made from
		from := slices.Index(append(args, "<"), "<")
		w.task = making(args[:from]...)
		w.task.Makes.Reads = args[min(from+1, len(args)):]
	case "reads":
		w.task.Makes.Reads = args
	case "guesses":
		w.task.Makes.Guessed = args[0] == "true"
	case "in":
		w.task.Dir = args[0]
	case "unnamed": // the target has no temporary name
		w.task.Makes.Targets[0].Temp = false
	case "command":
		w.task.Makes.Stamp.Command++
	case "known":
		w.task.Makes.Known = map[string]task.Known{"made": task.KnownMade, "unmade": task.KnownUnmade, "not": task.NotKnown}[args[0]]
		w.task.Makes.Made = w.task.Makes.Stamp
	case "cut": // by a power cut: the file is as it was before it was made
		w.task.Makes.Made.Since++
	case "at":
		var ns int64
		ns, err = strconv.ParseInt(args[1], 10, 64)
		at(w.t, args[0], ns)
	case "put":
		put(w.t, args[0], args[1])
	case "mkdir":
		err = os.Mkdir(args[0], 0o777)
	case "symlink":
		err = os.Symlink(args[0], args[1])
	case "fifo":
		err = unix.Mkfifo(args[0], 0o666)
	case "remove":
		err = os.RemoveAll(args[0])
	case "begin":
		w.a = begin(w.t, New(w.cfg), w.task)
	case "write":
		err = os.WriteFile(w.temp(args[0]), []byte(args[1]), 0o666)
	case "tree":
		err = os.MkdirAll(w.temp(args[0])+"/sub", 0o777)
		put(w.t, w.temp(args[0])+"/sub/file", args[1])
	case "write-symlink":
		err = os.Symlink(args[1], w.temp(args[0]))
	case "write-link":
		err = os.Link(args[1], w.temp(args[0]))
	case "write-fifo":
		err = unix.Mkfifo(w.temp(args[0]), 0o666)
	default:
		w.t.Fatal("no step: ", op)
	}
	require.NoError(w.t, err)
}

// temp returns the temporary name of a target, in the directory of the task.
func (w *workshop) temp(name string) string {
	if dir := w.task.Dir + w.cfg.Dir; dir != "" {
		return dir + "/" + w.a.temp(name)
	}
	return w.a.temp(name)
}

// see returns the visible state.
func (w *workshop) see(what string, args []string) string {
	switch what {
	case "why": // it has to run
		return check(w.t, w.cfg, w.task)
	case "refused":
		return refused(w.t, New(w.cfg), w.task)
	case "end": // with an outcome
		var o task.Outcome
		require.NoError(w.t, o.UnmarshalText([]byte(args[0])))
		o, err := w.a.end(o)
		if err != nil {
			return err.Error()
		}
		return o.String()
	case "read":
		b, err := os.ReadFile(args[0])
		if err != nil {
			return "-"
		}
		return string(b)
	case "to": // where a link leads
		to, err := os.Readlink(args[0])
		require.NoError(w.t, err)
		return to
	case "inputs":
		return fmt.Sprintf("%x", w.task.Makes.Stamp.Inputs)
	case "since": // a file was changed, after its attempt
		var st unix.Stat_t
		require.NoError(w.t, unix.Stat(args[0], &st))
		return time.Duration(st.Ctim.Nano() - w.task.Makes.Stamp.Since).String()
	}
	w.t.Fatal("nothing to see: ", what)
	return ""
}
