package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/require"

	"crew/runner/control"
	"crew/runner/task"
)

// picture draws a view on a screen of some size and returns its lines.
func picture(t *testing.T, v *view, w, h int) []string {
	s := tcell.NewSimulationScreen("UTF-8")
	require.NoError(t, s.Init())
	defer s.Fini()
	s.SetSize(w, h)
	v.draw(s)
	return lines(s)
}

// lines returns what a screen shows, without blanks at the ends of lines.
func lines(s tcell.SimulationScreen) (lines []string) {
	w, h := s.Size()
	for y := range h {
		var b strings.Builder
		for x := 0; x < w; x++ {
			text, _, width := s.Get(x, y)
			b.WriteString(text)
			x += max(width, 1) - 1
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// busy is a view of a run with so many running tasks.
func busy(tasks int) *view {
	v := &view{}
	for i := range 100 {
		v.rates = append(v.rates, float64(i%20))
	}
	total, eta := int64(5000), task.Seconds(20*time.Minute)
	v.hello = control.Hello{Name: "encode", Command: "ffmpeg -i {} {.}.mkv", PID: 4242}
	r := &control.Status{
		State: "running", Progress: control.Progress{Done: 1234, Total: &total, Failed: 3},
		Elapsed: 432e9, ETA: &eta, Rate: 8.4,
		Snapshot: task.Snapshot{
			Slots: make([]task.Slot, tasks), Queued: 120, Aside: 3,
			Waiting: []task.Blocking{{Shown: "12 tasks of key a wait for worker 3"}, {Shown: "3 tasks wait for a retry, the next in 4s"}},
		},
	}
	used := map[int]usage{}
	for i := range tasks {
		r.Tasks = append(r.Tasks, control.Where{State: "running", Past: task.Past{Facts: task.Facts{
			Task: uint64(1235 + i), Worker: i + 1, Attempt: 1 + i%3, PID: 100 + i, Duration: task.Seconds(i * i * 1e9),
			Command: task.Bytes(fmt.Sprintf("ffmpeg -i 'film %d.avi' 'film %d.mkv'", i, i)),
		}}})
		if i != 1 {
			used[100+i] = usage{cpu: float64(i) * 0.37, memory: int64(i) * 12345678}
		}
	}
	three := 3
	for i := range 5 {
		r.Ended = append(r.Ended, control.Where{State: "ended", Past: task.Past{Facts: task.Facts{
			Task: uint64(105 - i), Outcome: task.Exit, Exit: &three, Duration: 2e9, Start: time.Now(), Worker: 1,
			Command: task.Bytes(fmt.Sprintf("ffmpeg -i 'film %d.avi'", i)),
		}}})
	}
	r.Ended[1].State = "waiting"
	v.learn(r, used, time.Now())
	return v
}

// Everything has its place at every size, no line is too long, and what matters
// most is seen on a small screen, too.
func TestPicture(t *testing.T) {
	for _, size := range [][2]int{{40, 10}, {80, 24}, {200, 60}} {
		for _, tasks := range []int{0, 4, 30, 500} {
			w, h := size[0], size[1]
			got := picture(t, busy(tasks), w, h)
			text := strings.Join(got, "\n")
			what := fmt.Sprintf("%d tasks on %d columns:\n%s", tasks, w, text)
			require.Len(t, got, h, what)
			require.Regexp(t, `^ encode  pid 4242 +running  7m12s$`, got[0], what)
			require.Contains(t, text, " 1234/5000 done  3 failed  eta 20m0s", what)
			require.Regexp(t, `(?m)^ +W(ORKER)?  TASK +AGE( TRY)? +CPU%( +MEM)?  `, text, what)
			require.Regexp(t, `(?m)^ WAITING\n 12 tasks of key a wait for worker 3$`, text, what)
			require.Regexp(t, `^ q quit  \? help  p pause`, got[h-1], what)
			if tasks == 0 {
				require.Contains(t, text, "no task is runn", what)
			} else {
				require.Regexp(t, `(?m)^ +3  1237 +4s( +3)? +74( +24M)?  ffmpeg -i '`, text, what)
			}
			require.Equal(t, h > 10, strings.Contains(text, "throughput "), what)
			require.Equal(t, h > 10, strings.Contains(text, " ffmpeg -i {} {.}.mkv"), what)
			require.Equal(t, h > 10 || tasks == 0, strings.Contains(text, " ENDED "), what)
			require.Equal(t, tasks > h, strings.Contains(text, fmt.Sprintf(" of %d\n", tasks)), what)
		}
	}
}

// Tasks on other machines have their host beside them, if there is room.
func TestHosts(t *testing.T) {
	v := busy(3)
	v.tasks[2].Host = "web1.\x1bexample.org.of.a.long.name"
	text := strings.Join(picture(t, v, 100, 24), "\n")
	require.Contains(t, text, " WORKER                 HOST  TASK ")
	require.Contains(t, text, "      3 web1._example.org.of  1237 ")
	require.NotContains(t, strings.Join(picture(t, v, 50, 24), "\n"), "web1")
}

// Skipped tasks are done, and add nothing to the throughput.
func TestSkipped(t *testing.T) {
	v := busy(3)
	s := v.status
	s.Done, s.Skipped, s.Outcomes = s.Done+100, 100, map[string]int64{"skipped": 100}
	v.learn(&s, nil, time.Now().Add(time.Second))
	require.Contains(t, strings.Join(picture(t, v, 100, 24), "\n"), " 1334/5000 done  3 failed  100 skipped  eta ")
	require.Zero(t, v.rates[len(v.rates)-1])
}

// What has ended can be chosen, too, also on a small screen, and scrolls.
func TestEnded(t *testing.T) {
	for _, size := range [][2]int{{40, 10}, {80, 24}} {
		v := busy(30)
		v.choose(30)
		require.Equal(t, v.tasks[30], v.mustPick(t))
		require.Contains(t, strings.Join(picture(t, v, size[0], size[1]), "\n"), " task 105: exit 3 after 2s: ")
		v.choose(34)
		require.Contains(t, strings.Join(picture(t, v, size[0], size[1]), "\n"), " task 101: exit 3 after 2s: ")
	}
	v := busy(2)
	v.choose(3)
	require.Contains(t, strings.Join(picture(t, v, 80, 24), "\n"), " ENDED  the latest first, 5 × exit 3\n")
	require.Regexp(t, `(?m)^ [0-9:]{8} task 104: exit 3 after 2s, waits for its retry: ffmpeg`, strings.Join(picture(t, v, 80, 24), "\n"))

	// The choice stays with its task, as long as that is there.
	s := v.status
	s.Tasks = s.Tasks[1:]
	v.learn(&s, nil, time.Now())
	require.Equal(t, uint64(104), v.mustPick(t).Task)
	s.Ended = s.Ended[:1]
	v.learn(&s, nil, time.Now())
	require.Equal(t, uint64(105), v.mustPick(t).Task)
	s.Tasks, s.Ended = nil, nil
	v.learn(&s, nil, time.Now())
	require.Empty(t, v.tasks)
	require.Zero(t, v.chosen)
}

func (v *view) mustPick(t *testing.T) row {
	require.NotEmpty(t, v.tasks)
	return v.tasks[v.chosenRow()]
}

// Records have a column where commands do not tell them, and their place on a narrow
// screen.
func TestRecords(t *testing.T) {
	v := busy(3)
	v.tasks[0].Record, v.tasks[1].Record, v.tasks[2].Tag = "film 0.avi", task.Bytes(strings.Repeat("r", 100)), "tag"
	text := strings.Join(picture(t, v, 80, 24), "\n")
	require.Regexp(t, `(?m)MEM  RECORD +COMMAND`, text)
	require.Regexp(t, `(?m)  film 0.avi +ffmpeg -i`, text)
	require.Regexp(t, `(?m)  r{17}…  ffmpeg -i`, text)
	require.Regexp(t, `(?m)  film 0.avi$`, strings.Join(picture(t, v, 50, 24), "\n"))
}

// A script that all tasks share is not shown, but what tells them apart.
func TestShared(t *testing.T) {
	v := busy(1)
	v.tasks[0].Command, v.tasks[0].Record, v.tasks[0].Apart = "for i in 1 2 3; do\n:; done", "film 0.avi", "film 0.avi"
	for _, w := range []int{40, 80} {
		require.Regexp(t, `(?m)^ +1  1235 .*  film 0.avi$`, strings.Join(picture(t, v, w, 24), "\n"))
	}
}

// Of several runs one is to be chosen.
func TestRuns(t *testing.T) {
	v := &view{run: 20}
	for i := range 30 {
		v.runs = append(v.runs, control.Hello{PID: 100 + i, State: control.Silent})
	}
	got := picture(t, v, 80, 10)
	require.Equal(t, " crew ctl top: which run?", got[0])
	require.Contains(t, strings.Join(got, "\n"), " 120 does not answer")
	require.Equal(t, " enter show  q quit", got[9])
}

// The table scrolls with the chosen task.
func TestScroll(t *testing.T) {
	v := busy(500)
	v.choose(499)
	text := strings.Join(picture(t, v, 80, 24), "\n")
	require.Contains(t, text, "500  1734 ")
	require.Regexp(t, `COMMAND +\d+-500 of 500`, text)
	v.choose(0)
	require.Contains(t, strings.Join(picture(t, v, 80, 24), "\n"), "  1  1235 ")
}

// Every size is drawn, however small.
func TestTiny(t *testing.T) {
	for _, w := range []int{0, 1, 2, 3, 8, 20, 39, 59, 60, 90} {
		for _, h := range []int{0, 1, 2, 3, 4, 6, 9, 15, 16, 20} {
			for _, v := range []*view{busy(30), {}, {help: true}, {log: &log{}}, {ask: &question{question: "cancel?"}}, {runs: make([]control.Hello, 3)}} {
				picture(t, v, w, h)
			}
		}
	}
}

// What commands hold never reaches the terminal as it is, and wide characters are
// cut between columns.
func TestHostile(t *testing.T) {
	v := busy(4)
	v.hello.Command = "printf '\x1b[2J\x07\xff\u202e\n\tend'"
	v.hello.Name = "日本語日本語日本語日本語日本語日本語"
	v.tasks[0].Command = task.Bytes(strings.Repeat("界", 200))
	v.tasks[1].Command = task.Bytes("x" + strings.Repeat("界", 200))
	v.tasks[2].Command = task.Bytes(strings.Repeat("e\u0301", 500))
	for w := 30; w < 100; w++ {
		got := picture(t, v, w, 24)
		for _, line := range got {
			for _, r := range line {
				require.True(t, r >= ' ' && r != 0x7f && r != 0x202e && r != 0xfffd, "%q", line)
			}
		}
		require.Regexp(t, `^ 日.*running  7m12s$`, got[0])
	}
	got := picture(t, v, 80, 24)
	require.Equal(t, ` printf '\x1b[2J\a\xff\u202e\n end'`, got[1])
	require.True(t, strings.HasSuffix(got[5], "界界 …"), got[5])
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0B", 999: "999B", 1000: "1.0K", 10 << 10: "10K", 1 << 20: "1.0M", 1023 << 20: "1.0G", 5 << 40: "5.0T",
	} {
		require.Equal(t, want, size(n))
	}
}

// A graph shows the latest values, and only 0 at the lowest level.
func TestGraph(t *testing.T) {
	v := busy(1)
	v.rates = []float64{9, 9, 9, 0, 0.01, 8}
	require.Equal(t, " throughput 8.4/s "+strings.Repeat(" ", 38)+"███▁▂▇ max 9.0/s", picture(t, v, 73, 24)[3])
	v.rates = nil
	require.Regexp(t, "^ throughput 8.4/s$", picture(t, v, 73, 24)[3])
}
