package task

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

// TestAnAttemptIsData: an attempt does the same after it was sent to another process.
func TestAnAttemptIsData(t *testing.T) {
	attempts, _ := crewtest.Rows[Attempt]("testdata/attempt.jsonl")
	a := attempts[0]
	wire, err := json.Marshal(a)
	require.NoError(t, err)
	var got Attempt
	require.NoError(t, json.Unmarshal(wire, &got))
	require.Equal(t, a, got)
	require.Equal(t, []string{"x", "12", "12{%} 12web1"}, got.Argv())
	require.Equal(t, "12: {%}web2", got.Task.TagOn(12, "web2", nil))
	require.True(t, got.Task.Varies())
	require.Equal(t, a.Task.Argv, a.Task.ArgvOn(0, "web1", nil), "without a slot it stays as it is")
	require.Equal(t, Origin{Task: 7, Number: 2, Slot: 12, Host: "web1"}, got.Origin())
	got.Task.Origin = &Origin{Task: 70, Number: 20, Slot: 120, Host: "far"}
	require.Equal(t, []string{"x", "120", "120{%} 120far"}, got.Argv())
	require.Equal(t, "120: {%}far", got.Task.TagOn(12, "web2", nil))
	require.Equal(t, *got.Task.Origin, got.Origin())
	got.Task.Marks = got.Task.Marks[:2]
	require.False(t, got.Task.Varies())
}

func TestSizeFollowsWhatATaskHolds(t *testing.T) {
	small, long := &Task{}, strings.Repeat("x", 1<<20)
	for _, large := range []*Task{
		{Argv: []string{long}}, {Stdin: []byte(long)}, {Object: long},
		{Records: [][]string{{long}}}, {Tag: long}, {Key: long},
		{Records: make([][]string, 1<<16)}, {Block: &Block{Text: make([]byte, 10, 1<<20)}},
		{Makes: &Making{Targets: []Target{{Path: long[256:]}}}},
		{Asked: &Terms{After: make([]uint64, 1<<17-16)}}, {Asked: &Terms{Name: Bytes(strings.Repeat("x", 1<<19)), Note: Bytes(strings.Repeat("x", 1<<19-128))}},
		{Asked: &Terms{Needs: make([]Need, 1<<20/24-4)}},
	} {
		require.InDelta(t, 1<<20, large.Size()-small.Size(), 100)
	}
}

func TestStatsAreAFold(t *testing.T) {
	at := time.Unix(100, 0)
	earlier := func(o Outcome) *Result {
		r := &Result{Task: &Task{}, Outcome: o}
		r.Task.Done = r
		return r
	}
	var s Stats
	for i, e := range []Event{
		{Kind: Resized, Slot: 3},
		{Kind: Admitted}, {Kind: Admitted}, {Kind: Admitted}, {Kind: Admitted},
		{Kind: Started}, {Kind: Retried}, {Kind: Started, Retries: 1}, {Kind: Retried}, {Kind: Started, Retries: 2},
		{Kind: Finished, Attempt: 3, Task: &Task{}, Result: &Result{Outcome: OK}},
		{Kind: Finished, Result: earlier(OK)},
		{Kind: Finished, Result: earlier(Exit)},
		{Kind: Started}, {Kind: Finished, Attempt: 1, Task: &Task{}, Result: &Result{Outcome: Timeout}},
		{Kind: Released, ID: 1, Last: 4}, {Kind: InputEnd}, {Kind: Draining},
	} {
		e.At = at.Add(time.Duration(i) * time.Second)
		s.Apply(&e)
	}
	require.EqualValues(t, []int64{4, 4, 4, 0, 1, 2, 2}, []int64{s.Admitted, s.Finished(), s.Released, s.Running, s.Retried, s.Resumed(), s.Failed()})
	here := s.WithoutEarlier()
	require.EqualValues(t, []int64{1, 1}, []int64{here.ByOutcome[OK], here.Failed()})
	require.True(t, s.InputEnd && s.Draining)
	require.InDelta(t, 2.0/17, s.Rate(at.Add(17*time.Second)), 1e-9)
	require.Zero(t, s.Rate(at))
	require.Zero(t, new(Stats).Rate(at))
}

func TestFactsAreJSON(t *testing.T) {
	crewtest.Examples(t, "testdata/facts.jsonl", func(t *testing.T, row struct {
		Result Result
		Error  string
		Want   json.RawMessage
	}) {
		r, want := row.Result, string(row.Want)
		if r.Task != nil {
			r.Task.Key += "\xff"
		}
		if row.Error != "" {
			r.Err = errors.New(row.Error)
		}
		f := r.Facts()
		require.Equal(t, want, "{"+string(f.Append(nil))[1:]+"}")
		var theirs bytes.Buffer
		enc := json.NewEncoder(&theirs)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(f))
		require.Equal(t, want+"\n", theirs.String())
		var read Facts
		require.NoError(t, json.Unmarshal(theirs.Bytes(), &read))
		require.Equal(t, f, read)
		require.Equal(t, f, read.Result(r.Task).Facts())
	})
	for o := range Outcomes {
		require.Equal(t, o == OK || o == Exit || o == StartFailed, o.HasCode(), "%v", o)
	}
	require.Equal(t, "unknown", Outcome(0).String())
	require.Equal(t, "unknown", Outcomes.String())
	require.Error(t, json.Unmarshal([]byte(`{"outcome":"unknown"}`), new(Facts)))
	require.Error(t, json.Unmarshal([]byte(`{"duration":1e400}`), new(Facts)))
}

func TestMembersAreJSON(t *testing.T) {
	for _, s := range []string{"", "a\"b\\c\n\t\r\b\f\x00\x1f", "é\xff\u2028", strings.Repeat("x", 1000)} {
		b := AppendText([]byte(`{"a":1`), "text", s)
		b = AppendTrue(AppendInt(b, "int", math.MinInt64), "true")
		b = AppendColumns(AppendName(b, "columns"), []string{s, "b"})
		b = append(AppendFields(AppendName(b, "fields"), []string{s, "n", "n"}, []string{s, "b", "c"}), '}')
		var got struct {
			Text    Bytes
			True    bool
			Columns []Bytes
			Fields  map[string]Bytes
		}
		require.NoError(t, json.Unmarshal(b, &got), "%s", b)
		require.Equal(t, Bytes(s), got.Text)
		require.Equal(t, []Bytes{Bytes(s), "b"}, got.Columns)
		want := map[string]Bytes{strings.ToValidUTF8(s, "\ufffd"): Bytes(s), "n": "b"}
		delete(want, "") // it has no name
		require.Equal(t, want, got.Fields)
	}
}

func FuzzPrintable(f *testing.F) {
	for _, s := range []string{"", "plain", "\x1b[2J", "a\r\nb", "\xff\xfe", "é\u202e", "\tx"} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, s string, n int) {
		got := Printable(Shorten(s, max(0, min(n, len(s)))))
		for _, r := range got {
			require.False(t, r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0, "%q", got)
		}
		if Printable(s) == s {
			require.True(t, strings.HasPrefix(s, strings.TrimSuffix(got, "…")), "%q is cut to %q", s, got)
		}
	})
}

func TestNamesOfHosts(t *testing.T) {
	require.Equal(t, strings.Repeat("a", MaxHost), HostName(strings.Repeat("a", 300)))
	here, err := os.Hostname()
	require.NoError(t, err)
	a := Attempt{Task: &Task{Argv: []string{"{host}"}, Marks: []Mark{{}}}, Slot: Slot{ID: 1}}
	require.Equal(t, []string{HostName(here)}, a.Argv(), "no host is this machine")
	a.Slot.Host = "$(x)"
	require.Equal(t, []string{"__x_"}, a.Argv())
}

// The allocator's next size is 384 bytes: see Protocol.
func TestATaskIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Task{}), uintptr(352))
}
