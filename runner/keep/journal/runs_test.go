package journal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// TestStories runs the rows of testdata/runs.txt and queues.txt. Each is a story of runs: steps of
// a world and, after >, the expected view. It also holds if each run compacts the journal first.
func TestStories(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"runs.txt", "queues.txt"} {
		crewtest.Stories(t, filepath.Join("testdata", file), func(t *testing.T, steps []string) {
			for _, slack := range []int64{1 << 20, -1 << 40} {
				t.Run(fmt.Sprint(slack), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, file == "queues.txt")
					w.cfg.Slack = slack
					for _, step := range steps {
						w.tell(step)
					}
				})
			}
		})
	}
}

// tell carries out a line of a story. "logs" and "same" set options of the journal.
func (w *world) tell(line string) {
	seen, is := strings.CutPrefix(line, ">")
	switch {
	case is:
		what, want, _ := strings.Cut(strings.TrimSpace(seen)+" ", ": ")
		require.Equal(w.t, strings.TrimSpace(want), w.see(what), "%s", line)
	case strings.HasPrefix(line, "programs "): // each with a fingerprint
		w.cfg.Command.Programs = strings.Split(line[len("programs "):], ", ")
	case line == "logs":
		w.cfg.Output.Logs = true
	case line == "same":
		w.cfg.SameCommand = true
	case line == "forgets":
		w.cfg.Queue.Keep = -w.cfg.Queue.Keep
	case strings.HasPrefix(line, "slack "): // waste allowed before a compaction
		_, err := fmt.Sscan(line[len("slack "):], &w.cfg.Slack)
		require.NoError(w.t, err)
	case line == "new": // use a new directory
		w.cfg.Dir = filepath.Join(w.cfg.Dir, "deep", "new")
	case strings.HasPrefix(line, "edit "): // another program changes the journal
		old, text, _ := strings.Cut(line[len("edit "):], " => ")
		edited := strings.Replace(read(w.t, w.cfg.Dir), old, text, 1)
		crewtest.WriteFile(w.t, filepath.Join(w.cfg.Dir, journalName), edited, 0o644)
	case line == "publish": // another program changes the directory
		require.NoError(w.t, filepath.WalkDir(w.cfg.Dir, func(path string, _ os.DirEntry, _ error) error { return os.Chmod(path, 0o755) }))
	case strings.HasPrefix(line, "command "):
		w.cfg.Command.Line = line[len("command "):]
	default:
		if err := w.do(line); err != nil {
			w.notices = append(w.notices, strings.ReplaceAll(err.Error(), w.cfg.Dir, "DIR"))
		}
	}
}

// see returns the view of a task, or of all.
func (w *world) see(what string) string {
	word, arg, _ := strings.Cut(what, " ")
	switch word {
	case "resumed":
		r, is := w.j.Resumed()
		return fmt.Sprintf("%v waiting %d, done %d, failed %d, interrupted %d", is, r.Waiting, r.Done, r.Failed, r.Running)
	case "missing":
		facts, n := w.j.Missing()
		s := strconv.Itoa(n)
		for _, f := range facts {
			s += " " + string(f.Command)
		}
		return s
	case "unlogged":
		n := 0
		for start := range w.j.Unlogged {
			require.False(w.t, start.IsZero())
			n++
		}
		return strconv.Itoa(n)
	case "notices":
		defer func() { w.notices = nil }()
		all := strings.ReplaceAll(strings.Join(w.notices, "; "), w.cfg.Dir, "DIR")
		return regexp.MustCompile(`byte \d+`).ReplaceAllString(all, "some byte")
	case "stdout":
		return strings.TrimSpace(w.shows.String())
	case "lines": // containing a text
		return strconv.Itoa(strings.Count(read(w.t, w.cfg.Dir), arg))
	case "tasks":
		return strings.Join(w.order, " ")
	case "succeeded":
		return fmt.Sprint(w.j.Succeeded())
	case "latest": // the last three
		var numbers []string
		for _, p := range w.j.EndedTasks(3, func(_ uint64, o task.Outcome) bool { return arg == "" || o.Failed() }) {
			numbers = append(numbers, fmt.Sprint(p.Task))
		}
		return strings.Join(numbers, " ")
	case "kept":
		id, err := strconv.ParseUint(arg, 10, 64)
		require.NoError(w.t, err)
		return w.kept(id)
	case "last":
		return fmt.Sprint(w.j.LastID(), w.j.lastDelivery())
	case "unkept":
		return fmt.Sprint(w.j.Unkept())
	case "edited":
		return strings.Join(w.j.ChangedPrograms(), " ")
	}
	return w.seeDirectory(word, arg, what)
}

// seeDirectory returns a view of the directory, or of a task in it.
func (w *world) seeDirectory(word, arg, what string) string {
	switch word {
	case "below": // whether the directory takes at most so many bytes
		most, err := strconv.ParseInt(arg, 10, 64)
		require.NoError(w.t, err)
		return strconv.FormatBool(size(w.t, w.cfg.Dir) < most)
	case "modes": // of the directory and its files
		var modes []string
		require.NoError(w.t, filepath.WalkDir(w.cfg.Dir, func(_ string, d os.DirEntry, _ error) error {
			info, err := d.Info()
			modes = append(modes, fmt.Sprintf("%o", info.Mode().Perm()))
			return err
		}))
		return strings.Join(modes, " ")
	case "files": // of outputs
		all, err := filepath.Glob(filepath.Join(w.cfg.Dir, outputPrefix+"*"))
		require.NoError(w.t, err)
		return strconv.Itoa(len(all))
	case "dumped":
		s, last := dumped(w.t, w.cfg.Dir)
		text := fmt.Sprintf("done %d, running %d, begun %d, unshown %d, waiting %d", last[0], s.Running, s.Begins, s.Unshown, s.Waiting)
		if s.Closed {
			text += ", closed"
		}
		return text
	}
	return w.view(what)
}

// kept returns the record of a task that has ended.
func (w *world) kept(id uint64) string {
	found := w.j.EndedTasks(1, func(other uint64, _ task.Outcome) bool { return other == id })
	if len(found) == 0 || !found[0].Kept {
		return "none"
	}
	p := found[0]
	var out bytes.Buffer
	n, err := io.Copy(&out, io.NewSectionReader(p.Outputs[0], 0, 1<<40))
	require.NoError(w.t, err)
	return fmt.Sprintf("says %s %d", strings.Fields(out.String() + " -")[0], n)
}
