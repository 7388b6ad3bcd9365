package sink

import (
	"bytes"
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

func TestGroupShowsBlocks(t *testing.T) {
	store := newStore(t, 1<<20)
	big := strings.Repeat("big\n", 40_000)
	for _, c := range []struct {
		name         string
		tag          bool
		out, err     string
		wantO, wantE string
	}{
		{name: "untouched", out: "a\nb", err: "c", wantO: "a\nb", wantE: "c"},
		{name: "nothing", tag: true},
		{name: "blank", tag: true, out: "\n\n", wantO: "t1\t\nt1\t\n"},
		{name: "tag", tag: true, out: "a\nb", err: "c\n", wantO: "t1\ta\nt1\tb\n", wantE: "t1\tc\n"},
		{name: "big", out: big, err: "x", wantO: big, wantE: "x"},
		{name: "big, tag", tag: true, err: big + "end", wantE: strings.ReplaceAll(big, "big", "t1\tbig") + "t1\tend\n"},
	} {
		for _, ordered := range []bool{false, true} {
			var p page
			s := NewStdout(p.screen(), StdoutConfig{Plan: task.Plan{Tag: c.tag, Order: ordered}, Store: store})
			e := spoken(t, store, 1, c.out, c.err)
			retried := e
			retried.Kind = task.Retried
			retried.Result = &task.Result{Stdout: kept(t, store, "not this")}
			consume(t, s, retried)
			consume(t, s, append([]task.Event{e}, released(1)...)...)
			require.True(t, c.wantO == p.out.String(), c.name)
			require.True(t, c.wantE == p.err.String(), c.name)
			require.NoError(t, s.Close(task.Stats{}))
		}
	}
}

// TestCIGroups: each stream of a task has lines around it, at the beginning of lines.
func TestCIGroups(t *testing.T) {
	store := newStore(t, 1<<20)
	group := func(t *task.Task, _ *task.Result, stderr bool) (begin, end string) {
		return fmt.Sprintf("<%d %v\n", t.ID, stderr), ">\n"
	}
	big := strings.Repeat("big\n", 40_000)
	for _, ordered := range []bool{false, true} {
		for _, tag := range []string{"", "t1\t"} {
			var p page
			s := NewStdout(p.screen(), StdoutConfig{Plan: task.Plan{Order: ordered, Tag: tag != ""}, Store: store, Group: group})
			consume(t, s, append([]task.Event{spoken(t, store, 1, "a\nb", "")}, released(1)...)...)
			require.Equal(t, "<1 false\n"+tag+"a\n"+tag+"b\n>\n", p.both.String())
			p.both.Reset()
			consume(t, s, append([]task.Event{spoken(t, store, 2, big, "x\n")}, released(2)...)...)
			require.Equal(t, "<2 false\n"+big+">\n<2 true\nx\n>\n", strings.ReplaceAll(p.both.String(), "t2\t", ""))
			p.both.Reset()
			consume(t, s, append([]task.Event{spoken(t, store, 3, "", "")}, released(3)...)...)
			require.Empty(t, p.both.String())
		}
	}
	require.Error(t, StdoutConfig{Plan: task.Plan{Show: task.ShowObjects}, Group: group}.Validate())
}

// TestSkippedTasks: a task that was up to date has no output, only an object.
func TestSkippedTasks(t *testing.T) {
	store := newStore(t, 1<<20)
	for _, show := range []task.Show{task.ShowBlocks, task.ShowLines, task.ShowObjects, task.ShowFacts} {
		for _, ordered := range []bool{false, true} {
			for _, failedOnly := range []bool{false, true} {
				var p page
				s := NewStdout(p.screen(), StdoutConfig{Plan: task.Plan{Show: show, Order: ordered, Tag: true, FailedOnly: failedOnly}, Store: store})
				consume(t, s, append([]task.Event{skippedEvent(1)}, released(1)...)...)
				if s.cfg.Plan.JSON() && !failedOnly {
					require.Contains(t, p.both.String(), `"outcome":"skipped"`)
				} else {
					require.Empty(t, p.both.String())
				}
			}
			// One that an earlier run has made is shown once it is known to be up to date.
			var p page
			s := NewStdout(p.screen(), StdoutConfig{Plan: task.Plan{Show: show, Order: ordered}, Store: store})
			e := spoken(t, store, 1, "made before\n", "")
			e.Task.Makes = &task.Making{Done: e.Result}
			consume(t, s, append([]task.Event{e}, released(1)...)...)
			require.Equal(t, show != task.ShowFacts, strings.Contains(p.out.String(), "made before"))
		}
	}
}

func TestTerminalOrderOfStreams(t *testing.T) {
	store := newStore(t, 1<<20)
	var p page
	s := NewStdout(p.screen(), StdoutConfig{})
	consume(t, s, spoken(t, store, 1, "1o ", "1e "), spoken(t, store, 2, "2o ", ""), spoken(t, store, 3, "", "3e "),
		spoken(t, store, 4, "4o ", strings.Repeat("x", 2*piece)), spoken(t, store, 5, "5o ", ""))
	require.Equal(t, "1o 1e 2o 3e 4o 5o ", strings.ReplaceAll(p.both.String(), "x", ""))
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
			p[i] = '\n'
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

func TestGroupAgainstModel(t *testing.T) {
	for seed := range int64(12) {
		rnd := rand.New(rand.NewSource(seed))
		store := newStore(t, []int64{0, 100_000, 64 << 20}[seed%3])
		cfg := StdoutConfig{Plan: task.Plan{Order: seed&1 > 0, Tag: seed&2 > 0}, Store: store}
		p, wantO, wantE := model(t, rnd, cfg, 80)
		require.True(t, wantO == p.out.String(), "stdout, seed %d", seed)
		require.True(t, wantE == p.err.String(), "stderr, seed %d", seed)
	}
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

func TestOutputsThatCannotBeRead(t *testing.T) {
	for _, cfg := range []task.Plan{{}, {Tag: true}, {Show: task.ShowObjects}} {
		for _, o := range []task.Output{brokenOutput{spool.Text("x")}, brokenOutput{spool.Text(strings.Repeat("x", 2*piece))}} {
			var p page
			s := NewStdout(p.screen(), StdoutConfig{Plan: cfg})
			events := []task.Event{ended(1, task.Result{Outcome: task.OK, Stdout: o})}
			require.ErrorIs(t, s.Consume(events), os.ErrClosed)
			ok := newStore(t, 1<<20)
			require.ErrorIs(t, s.Consume([]task.Event{spoken(t, ok, 2, "shown all the same", "")}), os.ErrClosed)
			require.Contains(t, p.out.String(), "shown all the same")
		}
	}
}

func TestNoHalfObjectOfUnreadableOutput(t *testing.T) {
	for _, o := range []task.Output{brokenOutput{spool.Text("x")}, brokenOutput{spool.Text(strings.Repeat("x", 2*piece))}} {
		var p page
		s := NewStdout(p.screen(), StdoutConfig{Plan: task.Plan{Show: task.ShowObjects}})
		events := []task.Event{ended(1, task.Result{Outcome: task.OK, Stdout: spool.Text("read"), Stderr: o}), ended(2, task.Result{Outcome: task.OK})}
		require.ErrorIs(t, s.Consume(events), os.ErrClosed)
		require.Regexp(t, `^{"task":2,.*}\n$`, p.out.String())
	}
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

// TestShowsAnAttemptWithoutItsRetry: what a task wrote is shown even if its attempt
// failed, to be retried, and the run makes no retry.
func TestShowsAnAttemptWithoutItsRetry(t *testing.T) {
	store := newStore(t, 1<<20)
	for _, text := range []string{"small\n", strings.Repeat("big\n", 40_000)} {
		for _, ordered := range []bool{false, true} {
			var p page
			s := NewStdout(p.screen(), StdoutConfig{Plan: task.Plan{Order: ordered}, Store: store})
			retried := ended(2, task.Result{Outcome: task.Exit, Stdout: kept(t, store, text), Stderr: kept(t, store, "err\n")})
			retried.Kind = task.Retried
			unrun := ended(2, task.Result{Outcome: task.NotRun, Before: []*task.Result{retried.Result}})
			consume(t, s, retried, unrun)
			waited := retried // whose output is closed
			waited.ID = 3
			consume(t, s, spoken(t, store, 1, "first\n", ""), ended(3, task.Result{Outcome: task.NotRun, Before: []*task.Result{waited.Result}}))
			consume(t, s, released(1, 2, 3)...)
			require.NoError(t, s.Close(task.Stats{}))
			want := "first\n" + text
			if !ordered {
				want = text + "first\n"
			}
			require.True(t, want == p.out.String())
			require.Equal(t, "err\n", p.err.String())
		}
	}
}
