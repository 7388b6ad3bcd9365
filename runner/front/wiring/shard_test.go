package wiring

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/show/sink"
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

// recordsOf returns the records of tasks, each as a string.
func recordsOf(list []*task.Task) (texts []string) {
	for _, tk := range list {
		for _, r := range tk.Records {
			texts = append(texts, tk.Object+strings.Join(r, "\t"))
		}
	}
	return texts
}

// TestShares checks that the shares together have each record once, in input order, and each key in a single share.
// By position, records without a key and a time are dealt in turn. By hash, removing records does not move others.
func TestShares(t *testing.T) {
	type row struct {
		Options, Command, Lines []string
		Times                   []int
	}
	crewtest.Examples(t, "testdata/shares.jsonl", func(t *testing.T, row row) {
		input := func(lines []string) string { return string(latin(strings.Join(lines, "\n"))) }
		words := slices.Concat(row.Options, row.Command)
		all := tasksOf(t, input(row.Lines), words...)
		if row.Times != nil {
			took := func(tk *task.Task) int { return row.Times[tk.ID-1] }
			some := slices.DeleteFunc(slices.Clone(all), func(tk *task.Task) bool { return took(tk) < 0 })
			words = slices.Concat([]string{"--times", joblogOf(t, some, took)}, words)
		}
		n := 1 + len(row.Lines)%8
		shares := func(form string, lines []string) (of map[string]int, got []string, lists [][]string) {
			of, keys := map[string]int{}, map[string]int{}
			for k := 1; k <= n; k++ {
				list := tasksOf(t, input(lines), append([]string{"--shard", fmt.Sprintf(form, k, n)}, words...)...)
				lists = append(lists, recordsOf(slices.DeleteFunc(slices.Clone(list), func(tk *task.Task) bool { return tk.Key != "" })))
				for i, tk := range list {
					require.EqualValues(t, i+1, tk.ID)
					for _, r := range recordsOf([]*task.Task{tk}) {
						require.True(t, of[r] == 0 || of[r] == k || form == byPosition, "equal records stay together")
						of[r], got = k, append(got, r)
					}
					if tk.Key != "" && len(tk.Records) == 1 {
						require.True(t, keys[tk.Key] == 0 || keys[tk.Key] == k, "key %q", tk.Key)
						keys[tk.Key] = k
					}
				}
			}
			return of, got, lists
		}
		_, got, lists := shares(byPosition, row.Lines)
		require.ElementsMatch(t, recordsOf(all), got)
		if row.Times == nil && !slices.Contains(words, "--key") {
			dealt := make([][]string, n)
			for i, r := range recordsOf(slices.DeleteFunc(slices.Clone(all), func(tk *task.Task) bool { return tk.Key != "" })) {
				dealt[i%n] = append(dealt[i%n], r)
			}
			require.Equal(t, dealt, lists)
		}
		of, got, _ := shares("hash:"+byPosition, row.Lines)
		require.ElementsMatch(t, recordsOf(all), got)
		if len(row.Lines) > 1 {
			fewer, _, _ := shares("hash:"+byPosition, slices.Delete(slices.Clone(row.Lines), 1, 2))
			for r, k := range fewer {
				require.Equal(t, of[r], k, r)
			}
		}
	})
}

const byPosition = "%d/%d" // --shard

// joblogOf writes a joblog of tasks. took returns the duration of a task in milliseconds.
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
