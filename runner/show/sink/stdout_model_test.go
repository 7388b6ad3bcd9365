package sink

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
	"crew/runner/decide/task"
)

// talk is a set of tasks that write and end, a Stdout that shows them, and the expected output.
type talk struct {
	*testing.T
	r     *rand.Rand
	cfg   StdoutConfig
	s     *Stdout
	out   limited
	err   limited
	tasks []*speaker
	batch []task.Event
	over  int    // number of released tasks
	turn  uint64 // in order: the task whose lines are shown as they come

	want     [2]string // expected output of stdout and stderr
	takes    [2]int    // bytes that each of them takes
	together bool      // events come in batches
}

// speaker is a task.
type speaker struct {
	id      uint64
	attempt int
	w       [2]io.WriteCloser // with ShowLines
	rest    [2]string         // unfinished lines
	held    [2]string         // held output
	ended   bool
}

// limited takes a number of bytes and then fails.
type limited struct {
	bytes.Buffer
	left int
	err  error
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	l.Buffer.Write(p[:n])
	if n < len(p) {
		return n, l.err
	}
	return n, nil
}

// TestStdoutAgainstModel checks that all output of tasks is shown completely, in blocks or lines,
// in order if required, and otherwise at once. If stdout fails, all earlier output stays and the loss
// is reported; if stderr fails, stdout continues.
func TestStdoutAgainstModel(t *testing.T) {
	for round := range crewtest.Rounds(40) {
		m := &talk{T: t, r: crewtest.Rand(t, round), turn: 1, takes: [2]int{1 << 30, 1 << 30}}
		m.cfg = StdoutConfig{Store: newStore(t, []int64{0, 100_000, 64 << 20}[m.r.IntN(3)])}
		m.cfg.Plan = task.Plan{Show: []task.Show{task.ShowBlocks, task.ShowLines, task.ShowLines, task.ShowObjects}[round%4], Order: round&4 > 0, Tag: m.r.IntN(2) == 0}
		if m.cfg.Plan.JSON() {
			m.cfg.Plan.Tag = false
		} else if m.r.IntN(2) == 0 {
			m.takes[m.r.IntN(2)] = m.r.IntN(200_000)
		}
		m.together = m.r.IntN(2) == 0
		m.out = limited{left: m.takes[0], err: &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}}
		m.err = limited{left: m.takes[1], err: syscall.EIO}
		m.s = NewStdout(NewScreen(&m.out, &m.err), m.cfg)
		for range 120 {
			m.step()
		}
		for _, sp := range m.running() {
			m.end(sp)
		}
		m.consume()
		m.finish()
	}
}

func (m *talk) running() (list []*speaker) {
	for _, sp := range m.tasks {
		if !sp.ended {
			list = append(list, sp)
		}
	}
	return list
}

// step takes a random step.
func (m *talk) step() {
	run := m.running()
	switch n := m.r.IntN(10); {
	case len(run) == 0 || n == 0 && len(run) < 6:
		sp := &speaker{id: uint64(len(m.tasks) + 1)}
		m.tasks = append(m.tasks, sp)
		m.begin(sp)
	case n < 7 && m.cfg.Plan.Show == task.ShowLines:
		m.write(run[m.r.IntN(len(run))], m.r.IntN(2), m.text())
	case n == 7 && m.cfg.Plan.Show == task.ShowLines: // retry the task
		sp := run[m.r.IntN(len(run))]
		m.close(sp)
		m.begin(sp)
	case n == 8:
		m.end(run[m.r.IntN(len(run))])
	case n == 9:
		m.consume()
	}
}

func (m *talk) begin(sp *speaker) {
	sp.attempt++
	if m.cfg.Plan.Show == task.ShowLines {
		sp.w[0], sp.w[1] = m.s.Open(task.Attempt{Task: &task.Task{ID: sp.id, Tag: fmt.Sprint("t", sp.id)}, Number: sp.attempt})
	}
}

// text returns the text of a write: usually short, sometimes longer than the memory of the spool.
func (m *talk) text() string {
	p := bytes.Repeat([]byte("abcdefghij"), 1+m.r.IntN(1<<m.r.IntN(14)))[m.r.IntN(10):]
	for long := 1 << m.r.IntN(16); len(p) > 0 && m.r.IntN(8) > 0; {
		p[m.r.IntN(min(len(p), long))] = "\n\n\x01\t"[m.r.IntN(4)]
	}
	return string(p)
}

// write lets a task write lines.
func (m *talk) write(sp *speaker, stream int, text string) {
	_, err := io.WriteString(sp.w[stream], text)
	m.fails(err)
	sp.rest[stream] += text
	end := strings.LastIndexByte(sp.rest[stream], '\n') + 1
	m.pass(sp, stream, sp.rest[stream][:end])
	sp.rest[stream] = sp.rest[stream][end:]
	m.check()
}

// fails accepts an error only if stdout has failed.
func (m *talk) fails(err error) {
	if err != nil {
		require.ErrorIs(m, err, syscall.EPIPE)
		require.Zero(m, m.out.left)
	}
}

// close ends an attempt and its last lines.
func (m *talk) close(sp *speaker) {
	for stream, w := range sp.w {
		if w != nil {
			m.fails(w.Close())
			if sp.rest[stream] != "" {
				m.pass(sp, stream, sp.rest[stream]+"\n")
			}
			sp.rest[stream] = ""
		}
	}
}

// pass shows the output of a task, or holds it for its turn.
func (m *talk) pass(sp *speaker, stream int, text string) {
	if m.cfg.Plan.Tag {
		text = naiveTag(fmt.Sprint("t", sp.id), text)
	}
	if sp.held[stream] += text; !m.cfg.Plan.Order || m.cfg.Plan.Show == task.ShowLines && sp.id <= m.turn {
		m.show(sp)
	}
}

func naiveTag(tag, text string) string {
	if text == "" {
		return ""
	}
	return tag + "\t" + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n"+tag+"\t") + "\n"
}

// show shows everything held for a task.
func (m *talk) show(sp *speaker) {
	for stream := range sp.held {
		m.want[stream] += sp.held[stream]
	}
	sp.held = [2]string{}
}

// end ends a task, and releases it and the tasks that waited for it.
func (m *talk) end(sp *speaker) {
	m.close(sp)
	sp.ended = true
	e := task.Event{Kind: task.Finished, ID: sp.id, Task: &task.Task{ID: sp.id}, Result: &task.Result{}}
	if m.cfg.Plan.Show != task.ShowLines {
		texts := [2]string{m.text(), m.text()}
		texts[m.r.IntN(2)] += strings.Repeat(m.text(), m.r.IntN(3))
		e = spoken(m, m.cfg.Store, sp.id, texts[0], texts[1])
		m.pass(sp, toStdout, texts[0])
		m.pass(sp, toStderr, texts[1])
	}
	if m.batch = append(m.batch, e); !m.cfg.Plan.Order {
		m.batch = append(m.batch, released(sp.id)...)
	}
	for ; m.cfg.Plan.Order && m.over < len(m.tasks) && m.tasks[m.over].ended; m.over++ {
		m.batch = append(m.batch, released(uint64(m.over+1))...)
	}
	if !m.together {
		m.consume()
	}
}

// consume acts as the pump.
func (m *talk) consume() {
	size := 1
	if m.together {
		size = max(1, len(m.batch))
	}
	for batch := range slices.Chunk(m.batch, size) {
		m.fails(m.s.Consume(batch))
		for _, e := range batch {
			if e.Result != nil {
				e.Result.Close()
			} else if m.cfg.Plan.Order {
				m.show(m.tasks[e.ID-1])
				m.turn = e.ID + 1
			}
		}
		if m.turn <= uint64(len(m.tasks)) && m.cfg.Plan.Show == task.ShowLines {
			if sp := m.tasks[m.turn-1]; !sp.ended {
				m.show(sp)
			}
		}
	}
	m.batch = nil
	m.check()
}

// check compares the output with the expected one.
func (m *talk) check() {
	if m.cfg.Plan.JSON() || !m.cfg.Plan.Order && m.cfg.Plan.Show == task.ShowBlocks && len(m.batch) > 0 {
		return
	}
	for stream, got := range [][]byte{m.out.Bytes(), m.err.Bytes()} {
		if want := m.want[stream]; want[:min(len(want), m.takes[stream])] != string(got) {
			m.Fatalf("stream %d: %.300q, not %.300q", stream, got, want)
		}
	}
}

// finish checks the state at the end.
func (m *talk) finish() {
	require.Empty(m, m.s.lines)
	failed := m.s.Close(task.Stats{})
	switch {
	case m.cfg.Plan.JSON():
		out, err := written(m.T, m.out.String())
		require.True(m, m.want == [2]string{out, err})
	case len(m.want[0]) > m.takes[0]:
		require.EqualError(m, failed, "write stdout: broken pipe")
		require.Equal(m, failed, m.s.Consume(nil))
	case len(m.want[1]) > m.takes[1]:
		require.EqualError(m, failed, "write stderr: input/output error")
	default:
		require.NoError(m, failed)
	}
	require.Equal(m, len(m.want[0]) > m.takes[0], m.s.LostOutput())
}

// TestLinesOfTasksAtTheSameTime lets tasks write lines at the same time, while a pump consumes
// their ends.
func TestLinesOfTasksAtTheSameTime(t *testing.T) {
	for _, order := range []bool{false, true} {
		var p page
		s := NewStdout(p.screen(), StdoutConfig{Plan: task.Plan{Show: task.ShowLines, Order: order, Tag: true}, Store: newStore(t, 100_000)})
		var want []string
		done := make(chan uint64)
		const tasks = 60
		for id := uint64(1); id <= tasks; id++ {
			lines := strings.Repeat(strings.Repeat("x", 1<<(id%18))+"\n", 10)
			want = append(want, slices.Collect(strings.Lines(naiveTag(fmt.Sprint("t", id), lines)))...)
			go func() {
				out, err := s.Open(task.Attempt{Task: &task.Task{ID: id, Tag: fmt.Sprint("t", id)}})
				for part := range slices.Chunk([]byte(lines), len(lines)/15+1) {
					_, _ = out.Write(part)
				}
				out.Close()
				err.Close()
				done <- id
			}()
		}
		over, head := map[uint64]bool{}, uint64(1)
		for range tasks {
			id := <-done
			batch := []task.Event{{Kind: task.Finished, ID: id, Task: &task.Task{ID: id}, Result: &task.Result{}}}
			for over[id] = true; over[head]; head++ {
				batch = append(batch, released(head)...)
			}
			consume(t, s, batch...)
		}
		got := slices.Collect(strings.Lines(p.out.String()))
		if !order {
			slices.Sort(got)
			slices.Sort(want)
		}
		require.True(t, slices.Equal(want, got))
	}
}
