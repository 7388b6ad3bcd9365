package target

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"crew/runner/task"
)

// benchDir returns a directory in the one that CREW_BENCH_DIR names, so that file systems
// can be compared.
func benchDir(b *testing.B) string {
	if os.Getenv("CREW_BENCH_DIR") == "" {
		return b.TempDir()
	}
	dir, err := os.MkdirTemp(os.Getenv("CREW_BENCH_DIR"), "crew")
	require.NoError(b, err)
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// BenchmarkCheck checks tasks that are up to date, each with one target and one input.
// The floor is a loop of the same system calls.
func BenchmarkCheck(b *testing.B) {
	const n = 100_000
	b.Chdir(benchDir(b))
	tasks := make([]*task.Task, n)
	var paths []string
	for i := range tasks {
		in := "in." + strconv.Itoa(i)
		tasks[i] = making(in + ".out")
		tasks[i].Makes.Reads = []string{in}
		for _, name := range []string{in, in + ".out"} {
			require.NoError(b, os.WriteFile(name, nil, 0o666))
			paths = append(paths, name)
		}
	}
	each := func(b *testing.B) { b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/task") }
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			for _, p := range paths {
				var st unix.Stat_t
				_ = unix.Stat(p, &st)
			}
		}
		each(b)
	})
	for _, journal := range []bool{false, true} {
		f := New(Config{Journal: journal})
		b.Run(fmt.Sprintf("journal=%v", journal), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				for _, t := range tasks {
					if f.Check(t) == nil {
						b.Fatal(t.Makes.Why)
					}
				}
			}
			each(b)
		})
	}
}

// BenchmarkMade makes small files, and does what a shell does with cmd > tmp && mv tmp out.
func BenchmarkMade(b *testing.B) {
	for _, way := range []string{"rename", "fsync and rename", "made", "made with a journal"} {
		b.Run(way, func(b *testing.B) {
			b.Chdir(benchDir(b))
			f := New(Config{Journal: way == "made with a journal"})
			tk := making("out")
			for i := 0; b.Loop(); i++ {
				tk.Makes.Targets[0].Path = "out." + strconv.Itoa(i)
				a := task.Attempt{Task: tk, Number: 1}
				temp := "temp"
				if way[0] == 'm' {
					require.Nil(b, f.Begin(a))
					temp = tk.Makes.TempName(tk.Makes.Targets[0].Path)
				}
				file, err := os.Create(temp)
				require.NoError(b, err)
				_, err = file.WriteString("hello\n")
				require.NoError(b, err)
				if way[0] == 'f' {
					require.NoError(b, file.Sync())
				}
				require.NoError(b, file.Close())
				if way[0] == 'm' {
					r := &task.Result{Task: tk, Attempt: 1, Outcome: task.OK}
					f.End(r)
					require.NoError(b, r.Err)
				} else {
					require.NoError(b, os.Rename(temp, filepath.Join(".", tk.Makes.Targets[0].Path)))
				}
			}
		})
	}
}
