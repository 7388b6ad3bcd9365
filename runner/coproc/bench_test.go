package coproc

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"crew/runner/proc"
	"crew/runner/spool"
	"crew/runner/task"
)

// BenchmarkCat moves records of 20 bytes through two workers.
func BenchmarkCat(b *testing.B) {
	for _, window := range []int{1, 64} {
		b.Run(fmt.Sprintf("window=%d", window), func(b *testing.B) {
			plan := task.Plan{}
			local, err := proc.New(proc.Config{Env: os.Environ(), Plan: plan, Store: spool.New(1<<20, "")})
			if err != nil {
				b.Fatal(err)
			}
			defer local.Close()
			w, err := New(Config{Local: local, Plan: plan, Store: spool.New(1<<20, "")})
			if err != nil {
				b.Fatal(err)
			}
			argv := []string{"cat"}
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for slot := 1; slot <= 2; slot++ {
				wg.Go(func() {
					n, out := b.N/2, 0
					t := &task.Task{ID: 1, Argv: argv, Protocol: task.LineProtocol, Stdin: []byte("0123456789012345678")}
					next := make([]task.Attempt, 0, window)
					w.Serve(task.Slot{ID: slot}, func(ended []*task.Result) ([]task.Attempt, task.Left) {
						for _, r := range ended {
							if r.Outcome != task.OK || r.Stdout.Len() != 20 {
								b.Error(r.Outcome, r.Err)
							}
						}
						out -= len(ended)
						next = next[:0]
						for n > 0 && out < window {
							next = append(next, task.Attempt{Task: t, Number: 1})
							n--
							out++
						}
						if n == 0 && out == 0 {
							return nil, task.LeftNone
						}
						return next, task.LeftMore
					})
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
		})
	}
}
