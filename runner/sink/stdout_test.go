package sink

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/spool"
	"crew/runner/task"
)

// page is a pair of streams, and both as they would mix on a terminal.
type page struct {
	out, err, both bytes.Buffer
}

func (p *page) screen() *Screen {
	return NewScreen(io.MultiWriter(&p.out, &p.both), io.MultiWriter(&p.err, &p.both))
}

func newStore(t testing.TB, limit int64) *spool.Store {
	s := spool.New(limit, t.TempDir())
	t.Cleanup(func() { s.Close() })
	return s
}

// kept returns text as an output of a task.
func kept(t testing.TB, s *spool.Store, text string) task.Output {
	if text == "" {
		return nil
	}
	b := s.Buffer()
	_, err := b.Write([]byte(text))
	require.NoError(t, err)
	return b
}

// spoken returns the Finished event of a task that wrote something.
func spoken(t testing.TB, s *spool.Store, id uint64, out, err string) task.Event {
	e := ended(id, task.Result{Outcome: task.OK, Stdout: kept(t, s, out), Stderr: kept(t, s, err)})
	e.Task.Tag = fmt.Sprintf("t%d", id)
	return e
}

func released(ids ...uint64) []task.Event {
	var events []task.Event
	for _, id := range ids {
		events = append(events, task.Event{Kind: task.Released, ID: id, Last: id})
	}
	return events
}

// consume acts as the pump: it closes outputs after the batch.
func consume(t testing.TB, s *Stdout, events ...task.Event) {
	t.Helper()
	require.NoError(t, s.Consume(events))
	for _, e := range events {
		if e.Result != nil {
			e.Result.Close()
		}
	}
}

// model runs tasks that write and end at random within a window and are released
// in order.
func model(t *testing.T, rnd *rand.Rand, cfg StdoutConfig, n int) (p *page, wantO, wantE string) {
	p = &page{}
	s := NewStdout(p.screen(), cfg)
	texts := make([][2]string, n)
	for i := range texts {
		for k := range 2 {
			if size := rnd.Intn(1 << rnd.Intn(18)); rnd.Intn(3) > 0 {
				texts[i][k] = randomText(rnd, size)
			}
		}
	}
	shown := func(id int) {
		for k, w := range []*string{&wantO, &wantE} {
			*w += naiveTag(cfg.Plan.Tag, fmt.Sprintf("t%d\t", id), texts[id-1][k])
		}
	}
	var batch []task.Event
	ended, next, base := map[int]bool{}, 1, 1
	for next <= n || len(batch) > 0 {
		if next <= n {
			id := base + rnd.Intn(min(60, n+1-base))
			if ended[id] {
				continue
			}
			ended[id] = true
			batch = append(batch, spoken(t, cfg.Store, uint64(id), texts[id-1][0], texts[id-1][1]))
			if !cfg.Plan.Order {
				shown(id)
				batch = append(batch, released(uint64(id))...)
			}
			for ; ended[base]; base++ {
				if cfg.Plan.Order {
					shown(base)
					batch = append(batch, released(uint64(base))...)
				}
				next++
			}
		}
		if next > n || rnd.Intn(4) == 0 {
			consume(t, s, batch...)
			batch = batch[:0]
		}
	}
	require.NoError(t, s.Close(task.Stats{}))
	return p, wantO, wantE
}

func randomText(rnd *rand.Rand, size int) string {
	p := make([]byte, size)
	long := 1 << rnd.Intn(16)
	for i := range p {
		p[i] = 'a' + byte(i%26)
		if rnd.Intn(long) == 0 {
			p[i] = "\n\x01\t"[rnd.Intn(3)]
		}
	}
	return string(p)
}

func naiveTag(tag bool, prefix, text string) string {
	if !tag || text == "" {
		return text
	}
	text = strings.TrimSuffix(text, "\n")
	return prefix + strings.ReplaceAll(text, "\n", "\n"+prefix) + "\n"
}

// Blocks and objects have all that tasks wrote, in one piece for each task, in turn.
func TestGroupAgainstModel(t *testing.T) {
	for seed := range int64(16) {
		rnd := rand.New(rand.NewSource(seed))
		store := newStore(t, []int64{0, 100_000, 64 << 20}[seed%3])
		cfg := StdoutConfig{Plan: task.Plan{Order: seed&1 > 0, Tag: seed&2 > 0}, Store: store}
		if seed >= 12 {
			cfg.Plan.Show, cfg.Plan.Tag = task.ShowObjects, false
		}
		p, wantO, wantE := model(t, rnd, cfg, 80)
		gotO, gotE := p.out.String(), p.err.String()
		if cfg.Plan.JSON() {
			require.Empty(t, gotE)
			gotO, gotE = written(t, gotO)
		}
		require.True(t, wantO == gotO, "stdout, seed %d", seed)
		require.True(t, wantE == gotE, "stderr, seed %d", seed)
	}
}

// written returns what tasks wrote that objects are of.
func written(t *testing.T, objects string) (stdout, stderr string) {
	for line := range strings.Lines(objects) {
		var o struct{ Stdout, Stderr string }
		require.NoError(t, json.Unmarshal([]byte(line), &o))
		stdout, stderr = stdout+o.Stdout, stderr+o.Stderr
	}
	return stdout, stderr
}

func TestStdoutConfigValidate(t *testing.T) {
	store := newStore(t, 1)
	require.NoError(t, StdoutConfig{}.Validate())
	for _, p := range []task.Plan{{Order: true}, {Show: task.ShowLines}} {
		require.NoError(t, StdoutConfig{Plan: p, Store: store}.Validate())
		require.EqualError(t, StdoutConfig{Plan: p}.Validate(), "output that is held back needs a spool")
	}
}

// limited takes some bytes and then fails.
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

func TestStdoutErrorsStopTheRun(t *testing.T) {
	store := newStore(t, 1<<20)
	big := strings.Repeat("x", 2*piece)
	epipe := &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
	for _, text := range []string{"small", big} {
		for _, cfg := range []task.Plan{{}, {Tag: true}, {Show: task.ShowObjects}} {
			out := &limited{left: 3, err: epipe}
			s := NewStdout(NewScreen(out, io.Discard), StdoutConfig{Plan: cfg})
			err := s.Consume([]task.Event{spoken(t, store, 1, text, "")})
			require.ErrorIs(t, err, syscall.EPIPE)
			require.EqualError(t, err, "write stdout: broken pipe")
			require.ErrorIs(t, s.Consume(nil), syscall.EPIPE)
			require.EqualValues(t, 1, s.Lost())
			require.Error(t, s.Consume([]task.Event{spoken(t, store, 2, "small", ""), spoken(t, store, 3, big, ""), spoken(t, store, 4, "", "")}))
			want := 3
			if cfg.Show == task.ShowObjects {
				want++ // an object without output is a result, too
			}
			require.EqualValues(t, want, s.Lost())
			require.ErrorIs(t, s.Close(task.Stats{}), syscall.EPIPE)
			require.Equal(t, 3, out.Len(), "nothing is written after an error")
		}
	}
}

func TestStderrErrorsLoseNoStdout(t *testing.T) {
	store := newStore(t, 1<<20)
	var out bytes.Buffer
	s := NewStdout(NewScreen(&out, &limited{err: syscall.EIO}), StdoutConfig{})
	big := strings.Repeat("x", 2*piece)
	consume(t, s, spoken(t, store, 1, "a", "e"), spoken(t, store, 2, big, big), spoken(t, store, 3, "b", ""))
	require.Equal(t, "a"+big+"b", out.String())
	require.EqualError(t, s.Close(task.Stats{}), "write stderr: input/output error")
}

func TestFullSpoolLosesNothingHeld(t *testing.T) {
	outputs := newStore(t, 64<<20)
	gone := spool.New(0, t.TempDir())
	gone.Close()
	var p page
	s := NewStdout(p.screen(), StdoutConfig{Plan: task.Plan{Order: true}, Store: gone})
	var want strings.Builder
	failed := false
	for id := uint64(2); id < 30; id++ {
		text := strings.Repeat(string(rune('a'+id%26)), 20_000)
		want.WriteString(text)
		failed = s.Consume([]task.Event{spoken(t, outputs, id, text, "")}) != nil
	}
	require.True(t, failed)
	var ids []uint64
	for id := uint64(1); id < 30; id++ {
		ids = append(ids, id)
	}
	require.Error(t, s.Consume(released(ids...)))
	require.True(t, want.String() == p.out.String())
}
