package wiring

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/sink"
	"crew/runner/task"
)

// tasksOf returns the tasks of a command line.
func tasksOf(t *testing.T, stdin string, args ...string) (list []*task.Task) {
	t.Helper()
	o := parsed(t, args...)
	known, err := openTimes(o)
	require.NoError(t, err)
	src, err := openSource(o, 1, openShare(o, known), strings.NewReader(stdin))
	require.NoError(t, err)
	defer src.reader.Close()
	number := func() uint64 { return uint64(len(list)) + 1 }
	for {
		tk, err := src.tasks.Next(number)
		if err == io.EOF {
			return list
		}
		require.NoError(t, err)
		list = append(list, tk)
	}
}

// recordsOf returns the records of tasks, each as a text.
func recordsOf(list []*task.Task) (texts []string) {
	for _, tk := range list {
		for _, r := range tk.Records {
			texts = append(texts, tk.Object+strings.Join(r, "\t"))
		}
	}
	return texts
}

// Shares have each record once, in input order, and each key in one of them; records
// that go do not move others.
func TestShares(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	words := []string{"a", "b c", "", "x,y", "é", "\xff", `q"`, "d/e.f", "7"}
	text := func() string { return words[rnd.IntN(len(words))] + fmt.Sprint(rnd.IntN(40)) }
	for range 150 {
		var lines []string
		options, command := []string{}, []string{"echo", "{}"}
		key := ""
		kind := rnd.IntN(6)
		for range rnd.IntN(60) {
			line := text() + "," + text()
			if kind == 2 || kind == 3 {
				member := "key"
				if rnd.IntN(2) == 0 {
					member = "dir"
				}
				b, err := json.Marshal(map[string]string{"command": text(), member: fmt.Sprint("k", rnd.IntN(9))})
				require.NoError(t, err)
				line = string(b)
			}
			lines = append(lines, line)
		}
		switch kind {
		case 0:
			key = "{1}"
			options = append(options, "-C", ",")
		case 1:
			options = append(options, "--header")
			lines = append([]string{"name"}, lines...)
		case 2:
			options, command = append(options, "--input", "json"), nil
			key = "command" // its own
		case 3:
			options = append(options, "--input", "json")
		case 4:
			options = append(options, "-a", "-")
			command = append(command, ":::", "1", "2", "3")
		}
		if kind != 2 && kind != 3 && rnd.IntN(3) == 0 {
			options = append(options, "-n", fmt.Sprint(2+rnd.IntN(5)))
		}
		if strings.HasPrefix(key, "{") {
			options = append(options, "--key", key)
		}
		plain := slices.Concat(options, command)
		if !slices.Contains(options, "-n") && !slices.Contains(options, "--key") && rnd.IntN(2) == 0 {
			some := tasksOf(t, strings.Join(lines, "\n"), plain...)
			some = slices.DeleteFunc(some, func(*task.Task) bool { return rnd.IntN(3) == 0 })
			options = append(options, "--times", joblogOf(t, some, func(*task.Task) int { return rnd.IntN(3000) }))
		}
		n := 1 + rnd.IntN(8)
		shares := func(lines []string) (of map[string]int, all []string) {
			of = map[string]int{}
			keys := map[string]int{}
			for k := 1; k <= n; k++ {
				args := slices.Concat([]string{"--shard", fmt.Sprintf("%d/%d", k, n)}, options, command)
				list := tasksOf(t, strings.Join(lines, "\n"), args...)
				for _, r := range recordsOf(list) {
					require.True(t, of[r] == 0 || of[r] == k, "equal records stay together")
					of[r] = k
					all = append(all, r)
				}
				for i, tk := range list {
					require.EqualValues(t, i+1, tk.ID)
					if tk.Key != "" && len(tk.Records) == 1 {
						require.True(t, keys[tk.Key] == 0 || keys[tk.Key] == k, "key %q", tk.Key)
						keys[tk.Key] = k
					}
				}
			}
			return of, all
		}
		of, all := shares(lines)
		want := recordsOf(tasksOf(t, strings.Join(lines, "\n"), plain...))
		slices.Sort(all)
		slices.Sort(want)
		require.Equal(t, want, all)
		if len(lines) > 1 {
			fewer, _ := shares(slices.Delete(slices.Clone(lines), 1, 2))
			for r, k := range fewer {
				require.Equal(t, of[r], k, r)
			}
		}
	}
}

// joblogOf writes a joblog of tasks that took so many milliseconds.
func joblogOf(t *testing.T, list []*task.Task, took func(*task.Task) int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "log")
	j, err := sink.OpenJoblog(path, sink.JoblogNew, nil)
	require.NoError(t, err)
	for _, tk := range list {
		r := &task.Result{Task: tk, Outcome: task.OK, Start: time.Unix(1, 0)}
		r.End = r.Start.Add(time.Duration(took(tk)) * time.Millisecond)
		require.NoError(t, j.Consume([]task.Event{{Kind: task.Finished, Task: tk, Result: r}}))
	}
	require.NoError(t, j.Close(task.Stats{}))
	return path
}

func TestSharesByTimesAreEven(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var lines []string
	cost := map[string]int{}
	for i := range 300 {
		cost[fmt.Sprint("t ", i)] = 1 + int(100*math.Exp(2*rnd.NormFloat64()))
		lines = append(lines, fmt.Sprint(i))
	}
	took := func(tk *task.Task) int { return cost[tk.CommandLine(tk.Argv)] }
	stdin := strings.Join(lines, "\n")
	log := joblogOf(t, tasksOf(t, stdin, "t", "{}"), took)
	for _, n := range []int{1, 2, 4} {
		sum, most := 0, 0
		for k := 1; k <= n; k++ {
			share := 0
			for _, tk := range tasksOf(t, stdin, "--shard", fmt.Sprintf("%d/%d", k, n), "--times", log, "t", "{}") {
				share += took(tk)
			}
			sum, most = sum+share, max(most, share)
		}
		require.Less(t, float64(most), 1.01*float64(sum)/float64(n))
	}
}

func TestTotalOfShare(t *testing.T) {
	args := []string{"--shard", "1/3", "-n1", "echo", "{1}{2}", ":::"}
	for i := range 40 {
		args = append(args, fmt.Sprint(i))
	}
	args = append(args, ":::", "a", "b", "c")
	n, ok := totalOf(t, nil, args...).get(crewtest.Patience)
	require.True(t, ok)
	require.EqualValues(t, len(tasksOf(t, "", args...)), n)
	require.Greater(t, n, int64(0))
	require.Less(t, n, int64(120))
}
