package sink

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"math/rand"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/spool"
	"crew/runner/task"
)

func attempt(id uint64) task.Attempt {
	return task.Attempt{Task: &task.Task{ID: id, Tag: fmt.Sprintf("t%d", id)}, Number: 1, Slot: task.Slot{ID: 1}}
}

func put(t testing.TB, w io.Writer, text string) {
	t.Helper()
	n, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.Equal(t, len(text), n)
}

// end returns the Finished event of a task in line mode, which captures nothing.
func end(id uint64) task.Event {
	return task.Event{Kind: task.Finished, ID: id, Task: &task.Task{ID: id}, Result: &task.Result{}}
}

func TestLinesAreWhole(t *testing.T) {
	var p page
	s := NewStdout(p.screen(), StdoutConfig{Plan: task.Plan{Show: task.ShowLines}, Store: newStore(t, 1<<20)})
	out1, err1 := s.Open(attempt(1))
	out2, err2 := s.Open(attempt(2))
	put(t, out1, "on")
	put(t, out2, "two\n2")
	require.Equal(t, "two\n", p.both.String())
	put(t, out1, "e\n\n1")
	put(t, err2, "e2")
	require.Equal(t, "two\none\n\n", p.both.String())
	for _, w := range []io.Closer{out1, err1, out2, err2} {
		require.NoError(t, w.Close())
		require.NoError(t, w.Close())
	}
	require.Equal(t, "two\none\n\n1\n2\ne2\n", p.both.String(), "a last line gets its newline")
	require.Equal(t, "e2\n", p.err.String())
	_, err := out1.Write([]byte("x"))
	require.ErrorIs(t, err, fs.ErrClosed)
}

// prints is a stdout that keeps what each Print writes. Another task could write
// between two of them.
type prints struct {
	s   *Stdout
	all [][]byte
}

func (p *prints) Write(b []byte) (int, error) {
	p.all = append(p.all, nil)
	p.s.ports[toStdout].w = samePrint{p} // until the next Print
	return p.s.ports[toStdout].w.Write(b)
}

type samePrint struct{ *prints }

func (p samePrint) Write(b []byte) (int, error) {
	last := &p.all[len(p.all)-1]
	*last = append(*last, b...)
	return len(b), nil
}

func TestLongLinesAreWholeAndBounded(t *testing.T) {
	store := newStore(t, 1<<20)
	for _, tag := range []bool{false, true} {
		for _, size := range []int{longLine - 1, longLine, longLine + 1, 3 << 20} {
			var p prints
			p.s = NewStdout(NewScreen(&p, io.Discard), StdoutConfig{Plan: task.Plan{Show: task.ShowLines, Tag: tag}, Store: store})
			out, _ := p.s.Open(attempt(1))
			long := strings.Repeat("x", size)
			for i := 0; i < size; i += 10_000 {
				put(t, out, long[i:min(size, i+10_000)])
			}
			require.Empty(t, p.all)
			put(t, out, "!\nnext\n"+long)
			out.Close()
			got := string(bytes.Join(p.all, nil))
			want := naiveTag(tag, "t1\t", long+"!\nnext\n"+long+"\n")
			require.True(t, want == got, "tag %t size %d", tag, size)
			for _, one := range p.all {
				require.Equal(t, byte('\n'), one[len(one)-1], "whole lines in one print")
			}
		}
	}
}

// talk writes a task's text in random chunks.
func talk(rnd *rand.Rand, w io.WriteCloser, text string) error {
	for len(text) > 0 {
		n := 1 + rnd.Intn(min(len(text), 1<<rnd.Intn(17)))
		if _, err := io.WriteString(w, text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return w.Close()
}

// lines runs tasks in line mode that write at the same time, while a pump consumes
// their ends.
func lines(t *testing.T, seed int64, cfg StdoutConfig, texts [][2]string) *page {
	p := &page{}
	s := NewStdout(p.screen(), cfg)
	done := make(chan uint64)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	go func() {
		for i, text := range texts {
			id := uint64(i + 1)
			slots <- struct{}{}
			wg.Go(func() {
				var both sync.WaitGroup
				out, err := s.Open(attempt(id))
				for k, w := range []io.WriteCloser{out, err} {
					both.Go(func() {
						if err := talk(rand.New(rand.NewSource(seed+int64(id)*2+int64(k))), w, text[k]); err != nil {
							t.Errorf("task %d: %v", id, err)
						}
					})
				}
				both.Wait()
				<-slots
				done <- id
			})
		}
		wg.Wait()
		close(done)
	}()
	rnd := rand.New(rand.NewSource(seed))
	var batch []task.Event
	over, head := map[uint64]bool{}, uint64(1)
	for id := range done {
		batch = append(batch, end(id))
		over[id] = true
		for ; over[head]; head++ {
			batch = append(batch, released(head)...)
		}
		if rnd.Intn(3) == 0 {
			consume(t, s, batch...)
			batch = nil
		}
	}
	consume(t, s, batch...)
	require.NoError(t, s.Close(task.Stats{}))
	require.Empty(t, s.lines)
	return p
}

func TestLinesOfManyTasks(t *testing.T) {
	for seed := range int64(8) {
		rnd := rand.New(rand.NewSource(seed))
		cfg := StdoutConfig{
			Plan:  task.Plan{Show: task.ShowLines, Tag: true, Order: seed&1 > 0},
			Store: newStore(t, []int64{0, 200_000, 64 << 20}[seed%3]),
		}
		texts := make([][2]string, 60)
		var want [2]strings.Builder
		for i := range texts {
			for k := range 2 {
				texts[i][k] = randomText(rnd, rnd.Intn(1<<rnd.Intn(18)))
				want[k].WriteString(naiveTag(true, fmt.Sprintf("t%d\t", i+1), texts[i][k]))
			}
		}
		p := lines(t, seed, cfg, texts)
		if !cfg.Plan.Order {
			for k, got := range []string{p.out.String(), p.err.String()} {
				require.True(t, perTask(want[k].String()) == perTask(got), "seed %d, stream %d", seed, k+1)
			}
			continue
		}
		require.True(t, want[0].String() == p.out.String(), "stdout, seed %d", seed)
		require.True(t, want[1].String() == p.err.String(), "stderr, seed %d", seed)
	}
}

// perTask sorts tagged lines by task.
func perTask(text string) string {
	lines := slices.Collect(strings.Lines(text))
	slices.SortStableFunc(lines, func(a, b string) int {
		tagA, _, _ := strings.Cut(a, "\t")
		tagB, _, _ := strings.Cut(b, "\t")
		return strings.Compare(tagA, tagB)
	})
	return strings.Join(lines, "")
}

func TestOrderedLinesGoLiveInTurn(t *testing.T) {
	var p page
	s := NewStdout(p.screen(), StdoutConfig{Plan: task.Plan{Show: task.ShowLines, Order: true}, Store: newStore(t, 1<<20)})
	out1, _ := s.Open(attempt(1))
	out2, err2 := s.Open(attempt(2))
	out3, _ := s.Open(attempt(3))
	put(t, out2, "2 waits\n2 ha")
	put(t, err2, "2 err\n")
	put(t, out3, "3 waits\n")
	put(t, out1, "1 live\n")
	require.Equal(t, "1 live\n", p.both.String())
	out1.Close()
	out3.Close()
	consume(t, s, end(3))
	consume(t, s, append([]task.Event{end(1)}, released(1)...)...)
	require.Equal(t, "1 live\n2 waits\n2 err\n", p.both.String())
	put(t, out2, "lf\n")
	require.Equal(t, "1 live\n2 waits\n2 err\n2 half\n", p.both.String(), "2 is live now")
	out2.Close()
	again, _ := s.Open(attempt(2))
	put(t, again, "2 again\n")
	again.Close()
	consume(t, s, append([]task.Event{end(2)}, released(2, 3)...)...)
	require.Equal(t, "1 live\n2 waits\n2 err\n2 half\n2 again\n3 waits\n", p.both.String())
	out4, _ := s.Open(attempt(4))
	put(t, out4, "4 live\n")
	require.Contains(t, p.out.String(), "4 live\n")
}

func TestLineErrorsReachTheRun(t *testing.T) {
	for _, tag := range []bool{false, true} {
		for _, text := range []string{"a\n", strings.Repeat("x", longLine+1) + "\n"} {
			out := &limited{left: 1, err: &os.PathError{Err: syscall.EPIPE}}
			s := NewStdout(NewScreen(out, io.Discard), StdoutConfig{Plan: task.Plan{Show: task.ShowLines, Tag: tag}, Store: newStore(t, 1<<20)})
			w, e := s.Open(attempt(1))
			put(t, w, text[:len(text)-1])
			_, err := w.Write([]byte("\n"))
			require.ErrorIs(t, err, syscall.EPIPE)
			_, err = w.Write([]byte("more\n"))
			require.ErrorIs(t, err, syscall.EPIPE)
			require.Equal(t, 1, out.Len())
			put(t, e, "stderr goes on\n")
			require.EqualError(t, s.Consume(nil), "write stdout: broken pipe")
			require.EqualValues(t, 1, s.Lost(), "once for an attempt")
		}
	}
}

func TestLineErrorsOfTheSpool(t *testing.T) {
	gone := spool.New(0, t.TempDir())
	gone.Close()
	s := NewStdout(NewScreen(io.Discard, io.Discard), StdoutConfig{Plan: task.Plan{Show: task.ShowLines, Order: true}, Store: gone})
	out1, _ := s.Open(attempt(1))
	_, err := out1.Write(make([]byte, longLine+1))
	require.Error(t, err)
	require.Equal(t, err, s.Consume(nil))
	out2, _ := s.Open(attempt(2))
	_, err = out2.Write([]byte("held\n"))
	require.Error(t, err)
}
