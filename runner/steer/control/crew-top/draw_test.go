package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
	"crew/runner/keep/series"
	"crew/runner/steer/control"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.Local)

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

// busy returns a view of a run with n running tasks.
func busy(tasks int) *view {
	v := &view{curves: series.Curves{Width: task.Seconds(time.Second)}}
	for i := range 100 {
		v.curves.Points = append(v.curves.Points, series.Point{series.Ended: float64(i % 20)})
	}
	rows, _ := crewtest.Rows[struct {
		Hello  control.Hello
		Status control.Status
	}]("testdata/busy.jsonl")
	r := &rows[0].Status
	v.hello, r.Slots = rows[0].Hello, make([]task.Slot, tasks)
	used := map[int]usage{}
	for i := range tasks {
		r.Tasks = append(r.Tasks, task.Where{State: "running", EndedTask: task.EndedTask{Facts: task.Facts{
			Task: uint64(1235 + i), Worker: i + 1, Attempt: 1 + i%3, PID: 100 + i, Duration: task.Seconds(i * i * 1e9),
			Command: task.Bytes(fmt.Sprintf("ffmpeg -i 'film %d.avi' 'film %d.mkv'", i, i)),
		}}})
		if i != 1 {
			used[100+i] = usage{cpu: float64(i) * 0.37, memory: int64(i) * 12345678}
		}
	}
	for i := range r.Ended {
		r.Ended[i].Start = noon
	}
	v.update(r, used)
	return v
}

var changes, _ = crewtest.Rows[struct {
	Name  string
	Hello json.RawMessage
	Tasks []json.RawMessage
}]("testdata/odd.jsonl")

// odd changes a view of busy tasks as name says.
func odd(name string, v *view) {
	for _, c := range changes {
		if c.Name == name {
			_ = json.Unmarshal(c.Hello, &v.hello)
			for i, change := range c.Tasks {
				_ = json.Unmarshal(change, &v.tasks[i].Where)
			}
		}
	}
	s := v.status
	switch name {
	case "memory":
		v.curves.Points, v.graphed = []series.Point{{series.Memory: 1 << 30}, {series.Memory: 2 << 30}}, 4
	case "bursts": // only 0 is at the lowest level
		v.curves.Points = v.curves.Points[:6]
		for i, n := range []float64{9, 9, 9, 0, 0.01, 8} {
			v.curves.Points[i] = series.Point{series.Ended: n, series.Memory: 1 << 30}
		}
	case "fresh":
		v.curves.Points = nil
	case "fewer": // the chosen task stays chosen while it exists
		v.choose(len(v.tasks) - 2)
		s.Tasks = s.Tasks[1:]
		v.update(&s, nil)
		s.Ended = s.Ended[:1]
		v.update(&s, nil)
	case "runs": // a list to choose from
		*v = view{run: 20}
		for i := range 30 {
			v.runs = append(v.runs, control.Hello{PID: 100 + i, State: control.Silent})
		}
	case "log":
		v.log = &log{id: 7, state: "running", title: "make all", follow: true, close: func() {}}
		for i := range 100 {
			v.log.add(fmt.Appendf(nil, "line %d \x1b[1;31m\x1b[2J\t%s\x1b[0m\r\n", i, strings.Repeat("=", 50)), false)
		}
	}
}

// TestPictures compares the screen with pictures that people have checked. The line before each has the
// number of tasks, what is odd, the size of the screen and the keys to press first. CREW_UPDATE redraws
// them.
func TestPictures(t *testing.T) {
	require.Equal(t, "12345", figure(12345))
	const file = "testdata/pictures.txt"
	text := crewtest.ReadFile(t, file)
	var all strings.Builder
	for _, part := range strings.Split(text, "== ")[1:] {
		title, want, _ := strings.Cut(part, "\n")
		words := append(strings.Fields(title), "")
		tasks, err := strconv.Atoi(words[0])
		require.NoError(t, err)
		var w, h int
		_, err = fmt.Sscanf(words[2], "%dx%d", &w, &h)
		require.NoError(t, err)
		a := keyed(t, tasks, "")
		odd(words[1], &a.view)
		a.looked = time.Now().Add(time.Hour) // however long this takes, the run has just answered
		picture(t, &a.view, w, h)
		press(a, words[3])
		got := strings.Join(picture(t, &a.view, w, h), "\n") + "\n\n"
		if os.Getenv("CREW_UPDATE") == "" {
			require.Equal(t, want, got, title)
		}
		fmt.Fprintf(&all, "== %s\n%s", title, got)
	}
	if os.Getenv("CREW_UPDATE") != "" {
		crewtest.WriteFile(t, file, all.String(), 0o600)
	}
}

// TestTiny draws every size, however small.
func TestTiny(t *testing.T) {
	for _, w := range []int{0, 1, 2, 3, 8, 20, 39, 59, 60, 90} {
		for _, h := range []int{0, 1, 2, 3, 4, 6, 9, 15, 16, 20} {
			for _, v := range []*view{busy(30), {}, {log: keysLog()}, {log: &log{}}, {ask: &question{text: "cancel?"}}, {runs: make([]control.Hello, 3)}} {
				picture(t, v, w, h)
			}
		}
	}
}

// TestHostile checks that control characters in commands never reach the terminal.
func TestHostile(t *testing.T) {
	v := busy(4)
	odd("odd", v)
	for w := 30; w < 100; w++ {
		for _, r := range strings.Join(picture(t, v, w, 24), "") {
			require.True(t, r >= ' ' && r != 0x7f && r != 0x202e && r != 0xfffd, "%q", r)
		}
	}
}
