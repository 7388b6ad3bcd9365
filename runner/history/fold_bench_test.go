package history

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"crew/runner/task"
)

// BenchmarkFold adds the lines of a joblog, each of another command, and now and then a
// Report.
func BenchmarkFold(b *testing.B) {
	for _, n := range []int{1e6, 1e7} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				foldMany(b, n)
			}
		})
	}
}

func foldMany(b *testing.B, n int) {
	f := NewFold()
	f.Add(beganAt(0, "crew"))
	l, before := endedAs("finished", task.OK, 1, 0, 1, 1, 1), heapSize()
	began := time.Now()
	for i := range n {
		l.Task, l.Worker, l.Host = uint64(i+1), i%64+1, task.Bytes([]string{"", "a", "b", "c"}[i%4])
		l.Start = l.Start.Add(time.Millisecond)
		l.At = l.Start
		l.Duration = task.Seconds(i*7919%1000003) * 1000
		l.Command = task.Bytes(fmt.Sprintf("convert -resize 50%% pictures/%09d.jpg out/%09d.jpg", i, i))
		l.Outcome, l.Output = task.OK, nil
		if i%200 == 0 {
			l.Outcome, l.Output = task.Timeout, []byte("It took too long.\n")
		}
		f.Add(l)
	}
	b.ReportMetric(float64(n)/time.Since(began).Seconds(), "lines/s")
	held, start := heapSize()-before, time.Now()
	r := f.Report()
	b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms/report")
	b.ReportMetric(float64(held)/(1<<20), "MiB")
	b.ReportMetric(float64(len(r.Attempts.Task)), "shown")
}

func heapSize() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
