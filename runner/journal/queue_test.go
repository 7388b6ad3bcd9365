package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/task"
)

// What a queue accepted is there again, whole, whatever bytes it has.
func TestQueueHoldsWholeTasks(t *testing.T) {
	w := newWorld(t, true)
	w.cfg.Dir = filepath.Join(w.cfg.Dir, "deep", "queue")
	env := []string{"PATH=/bin", "ODD=\xff\n\"", `LINE=,"id":"`, ""}
	want := []*task.Task{
		{ID: 3, Argv: []string{"x", "\xfe", "é\x00\u2028<", ""}, Bare: true, Env: env, Dir: "/\xfd", Key: "k\xff"},
		{ID: 7, Argv: []string{"sh", "-c", "echo"}, Shell: true, Env: []string{"B=\x80"}, Stdin: []byte{}, Protocol: task.JSONProtocol, Cost: -3,
			Timeout: -time.Second, Asked: &task.Terms{After: []uint64{3}}, Records: [][]string{{"a", "\xff"}}, Object: `{"a":1}`, Tag: "t{%}\xff",
			Marks: []task.Mark{{Word: task.InTag, Off: 1}, {Word: 2, Off: 0}}},
		{ID: 8, Err: errors.New("no such column"), Stdin: []byte("in\xff")},
		{ID: 9, Argv: []string{"y"}, Bare: true, Env: env, Asked: &task.Terms{
			Priority: -7, Weight: 3, Needs: []task.Need{{Name: "db", N: 2}, {Name: "gpu", N: 1}},
			At: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC), Rank: -7, Note: "n\xff", Name: "a", Held: true,
		}},
		{ID: 10, Argv: []string{"y"}, Bare: true, Env: []string{}},
		{ID: 11, Argv: []string{"y"}, Marks: []task.Mark{{Temp: true}}, Makes: &task.Making{
			Targets: []task.Target{{Path: "a\xff", Temp: true}, {Path: "b"}}, Reads: []string{"in\xff"}, Guessed: true, Stdout: true,
		}},
	}
	require.NoError(t, w.do("open"))
	require.NoError(t, w.j.Accept(want[:2]))
	require.NoError(t, w.j.Accept(want[2:]))
	w.j.Started(task.Attempt{Task: want[5], Number: 1}, false)
	want[5].Makes.Known = task.KnownUnmade // its files are made again
	require.NoError(t, w.do("close"))
	require.Equal(t, 2, strings.Count(read(t, w.cfg.Dir), `"event":"environment"`), "each once")
	for range 3 {
		require.NoError(t, w.do("open"))
		got := w.tasks
		require.Len(t, got, len(want))
		for _, tk := range want {
			require.Equal(t, tk, got[fmt.Sprint(tk.ID)])
		}
		require.Same(t, &got["3"].Env[0], &got["9"].Env[0])
		require.NoError(t, w.do("close"))
		w.cfg.Slack = -1 << 40 // compacts from now on
	}
}

// A task whose environment cannot be read does not run without it.
func TestQueueMissesEnvironment(t *testing.T) {
	w := newWorld(t, true)
	for _, step := range []string{"open", "accept 1", "close"} {
		require.NoError(t, w.do(step))
	}
	bad := strings.Replace(read(t, w.cfg.Dir), "B=2", "B=3", 1)
	require.NoError(t, os.WriteFile(filepath.Join(w.cfg.Dir, journalName), []byte(bad), 0o600))
	for _, step := range []string{"open", "open -compact", "open"} {
		require.NoError(t, w.do(step))
		require.ErrorContains(t, w.tasks["1"].Err, "its environment is missing")
		require.NoError(t, w.do("close"))
	}
}

// Neither its environment nor more of a task than a part of its command is printed.
func TestQueueIsNotPrinted(t *testing.T) {
	w := newWorld(t, true)
	require.NoError(t, w.do("open"))
	tk := &task.Task{ID: 1, Argv: []string{"x", strings.Repeat("a", 200) + "SECRET"}, Bare: true, Env: []string{"P=SECRET"}, Stdin: []byte("SECRET")}
	require.NoError(t, w.j.Accept([]*task.Task{tk}))
	require.Equal(t, 3, strings.Count(read(t, w.cfg.Dir), "SECRET"))
	var out bytes.Buffer
	_, err := Dump(w.cfg.Dir, &out)
	require.NoError(t, err)
	require.Contains(t, out.String(), `"event":"accepted"`)
	require.NotContains(t, out.String(), "SECRET")
	require.NotContains(t, out.String(), "environment")
}

// A task may be as large as the kernel lets a process be, and a little larger.
func TestQueueOfLargeTasks(t *testing.T) {
	w := newWorld(t, true)
	require.NoError(t, w.do("open"))
	large, huge := strings.Repeat("x\xff", 1<<18), strings.Repeat("x", maxLine)
	require.NoError(t, w.j.Accept([]*task.Task{{ID: 1, Argv: []string{large}, Bare: true, Env: []string{"A=" + large}}}))
	require.ErrorContains(t, w.j.Accept([]*task.Task{{ID: 2, Argv: []string{huge}}}), "at most 67108864 can be recorded")
	require.ErrorContains(t, w.j.Accept([]*task.Task{{ID: 2, Bare: true, Env: []string{huge}}}), "at most 67108864 can be recorded")
	require.NoError(t, w.do("accept 3"))
	require.NoError(t, w.do("close"))
	for _, step := range []string{"open", "open -compact"} {
		require.NoError(t, w.do(step))
		require.Equal(t, []string{"1", "3"}, w.order)
		require.Equal(t, large, w.tasks["1"].Argv[0])
		require.Equal(t, "A="+large, w.tasks["1"].Env[0])
		require.NoError(t, w.do("close"))
	}
}
