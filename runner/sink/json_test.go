package sink

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"crew/runner/spool"
	"crew/runner/task"
)

func objectOf(t *testing.T, outputs, batches bool, e task.Event) string {
	var b bytes.Buffer
	j := object{outputs: outputs, records: Records{Several: batches}}
	require.NoError(t, j.write(&b, e.Task, e.Result))
	return b.String()
}

func TestObjects(t *testing.T) {
	out := func(s string) task.Output { return spool.Text(s) }
	full := ended(7, task.Result{
		Outcome: task.Exit, Code: 3, Attempt: 2, Worker: 4, PID: 99, Argv: []string{"job", "a b"}, Leaked: true,
		User: 1500 * time.Microsecond, System: time.Millisecond, MaxRSS: 2048,
		Stdout: out("tab\there \"<b>\"\n"), Stderr: out("\xff"),
	})
	full.Task.Key = "k"
	several := ended(1, task.Result{Outcome: task.OK})
	several.Task.Records = [][]string{{"a", "b"}, {"c"}}
	several.Result.Argv = []string{"sh", "-c", "x"}
	several.Task.Shell = true
	never := ended(2, task.Result{Outcome: task.NotRun})
	never.Task.Records = nil
	never.Result.Attempt = 0
	never.Result.Start, never.Result.End = time.Time{}, time.Time{}
	bytesOnly := ended(3, task.Result{Outcome: task.StartFailed, Code: 127, Err: errors.New("no \"x\"")})
	bytesOnly.Task.Records = [][]string{{"a\xff\xfe"}}
	bytesOnly.Task.Argv = []string{"x\xff"}
	bytesOnly.Task.Key = "k\xff"
	single := ended(1, task.Result{Outcome: task.OK})
	for _, c := range []struct {
		name             string
		outputs, batches bool
		e                task.Event
		want             string
	}{
		{"everything", true, false, full, `{"task":7,"key":"k","command":"job 'a b'","outcome":"exit","exit":3,"attempt":2,"worker":4,"pid":99,"start":"2026-01-02T03:04:05Z","duration":0.21,"user":0.0015,"system":0.001,"maxrss":2048,"leaked":true,"args":["a b"],"stdout":"tab\there \"<b>\"\n","stderr":{"base64":"/w=="}}`},
		{"several records", true, true, several, `{"task":1,"command":"x","outcome":"ok","exit":0,"attempt":1,"start":"2026-01-02T03:04:05Z","duration":0.21,"args":[["a","b"],["c"]],"stdout":"","stderr":""}`},
		{"one of several", false, true, single, `{"task":1,"command":"job 'a b'","outcome":"ok","exit":0,"attempt":1,"start":"2026-01-02T03:04:05Z","duration":0.21,"args":[["a b"]]}`},
		{"not run, no output", false, false, never, `{"task":2,"command":"job 'a b'","outcome":"not-run","args":[]}`},
		{"skipped", false, false, skippedEvent(9), `{"task":9,"command":"job 'a b'","outcome":"skipped","args":["a b"]}`},
		{"bytes", false, false, bytesOnly, `{"task":3,"key":{"base64":"a/8="},"command":{"base64":"J3j/Jw=="},"outcome":"start-failed","exit":127,"error":"no \"x\"","attempt":1,"start":"2026-01-02T03:04:05Z","duration":0.21,"args":[{"base64":"Yf/+"}]}`},
	} {
		got := objectOf(t, c.outputs, c.batches, c.e)
		require.Equal(t, c.want+"\n", got, c.name)
		require.True(t, json.Valid([]byte(got)), c.name)
	}
}

func TestFields(t *testing.T) {
	for _, c := range []struct {
		form    Records
		records [][]string
		object  string
		want    string
	}{
		{form: Records{Names: []string{"n", `"v"`}}, records: [][]string{{"a", "b\xff"}}, want: `"fields":{"n":"a","\"v\"":{"base64":"Yv8="}}`},
		{form: Records{Names: []string{"n", "", "n", "m"}}, records: [][]string{{"a", "b", "c"}}, want: `"fields":{"n":"a"}`},
		{form: Records{Names: []string{"n"}}, records: [][]string{{}}, want: `"fields":{}`},
		{form: Records{Names: []string{"n"}}, records: [][]string{{"a", "b"}}, want: `"fields":{"n":"a"}`},
		{form: Records{Names: []string{"n"}, Several: true}, records: [][]string{{"a"}, {"b"}}, want: `"fields":[{"n":"a"},{"n":"b"}]`},
		{form: Records{Objects: true}, object: `{"n": [1]}`, records: [][]string{{"x"}}, want: `"fields":{"n": [1]}`},
		{form: Records{Objects: true}, records: [][]string{{"x"}}, want: ""},
		{object: `{}`, records: [][]string{{"x"}}, want: ""},
	} {
		tk := &task.Task{ID: 1, Records: c.records, Object: c.object}
		j := object{records: c.form}
		got := string(j.begin(nil, tk, &task.Result{})) + "}"
		require.True(t, json.Valid([]byte(got)), got)
		_, fields, found := strings.Cut(strings.TrimSuffix(got, "}"), `,"fields":`)
		if found {
			fields = `"fields":` + fields
		}
		require.Equal(t, c.want, fields)
	}
}

func TestJSONOnStdout(t *testing.T) {
	store := newStore(t, 200_000)
	for _, ordered := range []bool{false, true} {
		rnd := rand.New(rand.NewSource(5))
		var p page
		s := NewStdout(p.screen(), StdoutConfig{Plan: task.Plan{Show: task.ShowObjects, Order: ordered}, Store: store})
		want := map[int][2]string{}
		var held []task.Event
		for id := 40; id > 0; id-- {
			texts := [2]string{randomText(rnd, rnd.Intn(1<<rnd.Intn(19))), randomText(rnd, rnd.Intn(100))}
			if id%5 == 0 {
				texts[0] += strings.Repeat("\x01", 40_000)
			}
			want[id] = texts
			held = append(held, spoken(t, store, uint64(id), texts[0], texts[1]))
		}
		consume(t, s, held...)
		for id := range uint64(40) {
			consume(t, s, released(id+1)...)
		}
		require.Empty(t, p.err.String())
		lines := strings.Split(strings.TrimSuffix(p.out.String(), "\n"), "\n")
		require.Len(t, lines, 40)
		for i, line := range lines {
			var got struct {
				Task           int
				Stdout, Stderr string
			}
			require.NoError(t, json.Unmarshal([]byte(line), &got))
			if ordered {
				require.Equal(t, i+1, got.Task)
			}
			require.True(t, want[got.Task] == [2]string{got.Stdout, got.Stderr}, "task %d", got.Task)
		}
		require.NoError(t, s.Close(task.Stats{}))
	}
}

// stretch is a long output that repeats a text.
type stretch struct {
	spool.Text
	n int64
}

func (s stretch) Len() int64 { return s.n }

func (s stretch) WriteTo(w io.Writer) (int64, error) {
	for done := int64(0); done < s.n; done += int64(len(s.Text)) {
		if _, err := w.Write(s.Text); err != nil {
			return done, err
		}
	}
	return s.n, nil
}

func TestLargeOutputDoesNotPassThroughTheHeap(t *testing.T) {
	for name, text := range map[string]string{"text": "\tä\n", "bytes": "a\xff"} {
		piece := strings.Repeat(text, 1000)
		e := ended(1, task.Result{Outcome: task.OK, Stdout: stretch{spool.Text(piece), int64(len(piece)) * 40_000}})
		s := NewStdout(NewScreen(io.Discard, io.Discard), StdoutConfig{Plan: task.Plan{Show: task.ShowObjects}})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		consume(t, s, e)
		runtime.ReadMemStats(&after)
		require.Less(t, after.HeapSys, before.HeapSys+(32<<20), name)
	}
}

func TestUTF8CheckAcrossWrites(t *testing.T) {
	rnd := rand.New(rand.NewSource(3))
	for range 20_000 {
		var p []byte
		for range rnd.Intn(6) {
			p = utf8.AppendRune(p, []rune{'a', 'ä', '€', '😀', 0x10FFFF}[rnd.Intn(5)])
		}
		if len(p) > 0 && rnd.Intn(2) == 0 {
			p[rnd.Intn(len(p))] = byte(rnd.Intn(256))
		}
		got, err := new(utf8Check).valid(crumbs{spool.Text(p), rnd})
		require.NoError(t, err)
		require.Equal(t, utf8.Valid(p), got, "%q", p)
	}
}

// crumbs writes itself a few bytes at a time.
type crumbs struct {
	spool.Text
	rnd *rand.Rand
}

func (c crumbs) WriteTo(w io.Writer) (int64, error) {
	for p := []byte(c.Text); len(p) > 0; {
		n := c.rnd.Intn(len(p) + 1)
		if _, err := w.Write(p[:n]); err != nil {
			return 0, err
		}
		p = p[n:]
	}
	return c.Len(), nil
}

func FuzzJSONString(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\\b\f\n\r\t\x00\x7f<&>", "ä€😀", "\xff\xc3", "\u2028", "a\xe2\x82"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var b bytes.Buffer
		j := object{outputs: true}
		require.NoError(t, j.write(&b, &task.Task{ID: 1}, &task.Result{Stdout: crumbs{spool.Text(s), rand.New(rand.NewSource(1))}}))
		var o struct{ Stdout task.Bytes }
		require.NoError(t, json.Unmarshal(b.Bytes(), &o))
		require.EqualValues(t, s, o.Stdout)
	})
}

func TestJSONListsEarlierAttempts(t *testing.T) {
	for _, size := range []int{3, 3 * piece} {
		for _, late := range []bool{false, true} {
			store, p := newStore(t, 1<<20), new(page)
			before := &task.Result{
				Attempt: 1, Outcome: task.Exit, Code: 75,
				Stdout: kept(t, store, strings.Repeat("x", size)), Stderr: kept(t, store, "early"),
			}
			e := ended(2, task.Result{Outcome: task.OK, Attempt: 2, Stdout: kept(t, store, "y"), Before: []*task.Result{before}})
			s := NewStdout(p.screen(), StdoutConfig{Plan: task.Plan{Show: task.ShowObjects, Order: late}, Store: store})
			consume(t, s, e)
			consume(t, s, released(1, 2)...)
			require.True(t, strings.HasSuffix(p.out.String(), `"attempts":[{"outcome":"exit","exit":75,"attempt":1,"stdout":"`+
				strings.Repeat("x", size)+`","stderr":"early"}],"stdout":"y","stderr":""}`+"\n"))
		}
	}
}
