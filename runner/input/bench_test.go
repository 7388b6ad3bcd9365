package input

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/expand"
	"crew/runner/task"
)

// short returns n records of eight bytes.
func short(n int) io.Reader { return io.LimitReader(repeat("1234567\n"), 8*int64(n)) }

func BenchmarkLines(b *testing.B) {
	b.ReportAllocs()
	r, err := Open(Config{Stdin: short(b.N)})
	require.NoError(b, err)
	for range b.N {
		if _, err := next(r); err != nil {
			b.Fatal(err)
		}
	}
}

func benchmarkTasks(b *testing.B, cfg expand.Config, l Limits) {
	benchmarkConfig(b, TasksConfig{Template: template(b, cfg), Limits: l})
}

func benchmarkConfig(b *testing.B, cfg TasksConfig) {
	b.ReportAllocs()
	r, err := Open(Config{Stdin: short(b.N)})
	require.NoError(b, err)
	src, number := NewTasks(r, cfg), count()
	for {
		if _, err := src.Next(number); err == io.EOF {
			return
		} else if err != nil {
			b.Fatal(err)
		}
	}
}

// An operation is a record, not a batch.
func BenchmarkBatch1000(b *testing.B) {
	benchmarkTasks(b, expand.Config{Words: []string{"true"}, Append: true, Batch: true}, Limits{Records: 1000, ArgMax: 2 << 20})
}

func BenchmarkWorker(b *testing.B) {
	benchmarkConfig(b, TasksConfig{Template: template(b, expand.Config{Words: []string{"cat"}}), Protocol: task.LineProtocol})
}

func BenchmarkWorkerJSON(b *testing.B) {
	benchmarkConfig(b, TasksConfig{Template: template(b, expand.Config{Words: []string{"cat"}}), Protocol: task.JSONProtocol})
}

func BenchmarkSingle(b *testing.B) {
	benchmarkTasks(b, expand.Config{Words: []string{"gzip", "-9", "{}"}}, Limits{ArgMax: 2 << 20})
}
