package control

import (
	"testing"
	"time"

	"crew/runner/task"
)

// BenchmarkRequests sends one request after another over one connection.
func BenchmarkRequests(b *testing.B) {
	b.Setenv("XDG_RUNTIME_DIR", b.TempDir())
	now := time.Now()
	snap := task.Snapshot{At: now, Stats: task.Stats{Start: now}}
	for id := 1; id <= 4; id++ {
		t := &task.Task{ID: uint64(id), Argv: []string{"gzip", "file"}}
		snap.Slots = append(snap.Slots, task.Slot{ID: id, Cap: 1})
		snap.Running = append(snap.Running, task.Running{Task: t, Slot: id, Attempt: 1, Since: now})
	}
	s := Serve(Config{Do: func(task.Command) task.Reply { return task.Reply{Snapshot: &snap} }, Feed: noFeed{}})
	defer s.Close()
	env := make([]task.Bytes, 60)
	for i := range env {
		env[i] = "SOME_VARIABLE=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	}
	for _, c := range []struct {
		name string
		q    Request
	}{
		{"pause", Request{Op: "pause"}},
		{"status", Request{Op: "status"}},
		{"add", Request{Op: "add", Add: &Addition{Values: []task.Bytes{"some/file.txt"}}}},
		{"add command", Request{Op: "add", Add: &Addition{Command: []task.Bytes{"make", "test"}, Dir: "/home/user", Env: env}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			client, err := Dial(Hello{path: s.path})
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			for b.Loop() {
				if err := client.Call(c.q, func([]byte, *Reply) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
	b.Run("connect", func(b *testing.B) {
		for b.Loop() {
			client, err := Dial(Hello{path: s.path})
			if err == nil {
				err = client.Call(Request{Op: "pause"}, func([]byte, *Reply) error { return nil })
			}
			if err != nil {
				b.Fatal(err)
			}
			client.Close()
		}
	})
}

type noFeed struct{}

func (noFeed) Add(_ *Addition, numbered func([]uint64)) error {
	numbered([]uint64{1})
	return nil
}
