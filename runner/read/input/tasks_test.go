package input

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"crew/runner/decide/task"
	"crew/runner/read/expand"
)

// TestBatchesInShells checks that a command with any number of separate words is filled up to the limit of
// the system. In a shell, records are arguments of the script, which is displayed as one word,
// and a later record may change how all of them are written.
func TestBatchesInShells(t *testing.T) {
	const records = 8000
	var in strings.Builder
	for i := range records {
		fmt.Fprintf(&in, "%s%060d\n", []string{"", "$"}[i/(records-1000)], i)
	}
	for command, most := range map[string]int{"echo": 1, "echo x{}": 1, "echo {} | cat": 9, `set -- "{}"x {#}; y`: 9} {
		for _, workers := range []int{0, 3} {
			e := example{Command: &expand.Config{Words: []string{command}, Insert: expand.AtEnd, Batch: true}, Limits: Limits{Records: records, ArgMax: 4 << 20, Workers: workers}}
			src, err := e.open(t, strings.NewReader(in.String()), "")
			require.NoError(t, err)
			n, tasks := 0, 0
			for tk, err := src.Next(func() uint64 { return 1 }); err == nil; tk, err = src.Next(func() uint64 { return 1 }) {
				require.NoError(t, tk.Err)
				require.LessOrEqual(t, max(longest(tk.Argv), longest(tk.Exec)), maxArgument)
				n, tasks = n+len(tk.Records), tasks+1
			}
			require.Equal(t, records, n, command)
			require.LessOrEqual(t, tasks, most+workers, command)
		}
	}
}

// TestTooLong checks arguments that are too long for the system, although the command is not.
func TestTooLong(t *testing.T) {
	most := strings.Repeat("x", maxArgument)
	src, err := example{Command: &expand.Config{Words: []string{"x", "{}"}, Batch: true}, Limits: Limits{ArgMax: 1 << 20, Records: 9}}.open(t, strings.NewReader("a\n"+most+"\n"+most+"y\nb\n"), "")
	require.NoError(t, err)
	list, _ := all(t, src, &watched{})
	require.Equal(t, []string{"x¦a¦" + most, "!argument list too long: argument is 131072 bytes, the limit is 131071", "x¦b"}, list)
}

// FuzzTerms checks that a task has valid terms or an error, whatever their texts are.
func FuzzTerms(f *testing.F) {
	for _, s := range [][3]string{{"0", "1", ""}, {"-1000", "2", "gpu,db:2"}, {"1001", "0", "net"}, {"+5", "1e3", "db:3"}} {
		f.Add(s[0], s[1], s[2])
	}
	f.Fuzz(func(t *testing.T, priority, weight, needs string) {
		a := Terms{Caps: caps}
		var tk, again task.Task
		if err := a.setTerms(&tk, rawTexts{nil, nil, &priority, &weight, &needs}); err != nil {
			require.Nil(t, tk.Asked)
			return
		}
		terms := tk.Terms()
		require.NoError(t, task.CheckNeeds(caps, terms.Needs, false))
		require.LessOrEqual(t, max(terms.Priority, -terms.Priority), task.MaxPriority)
		require.NoError(t, a.setTerms(&again, rawTexts{nil, nil, new(fmt.Sprint(terms.Priority)), new(fmt.Sprint(max(terms.Weight, 1))), new(needs)}))
		require.Equal(t, terms, again.Terms())
	})
}

// FuzzJSON checks that parseObject agrees with encoding/json, and that nothing in an object is altered.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"args":["a",1,null],"x":{"y":[]},"timeout":1e9}`, `{"env":{"A":"b"},"command":["x"],"timeout":"1h"}`,
		`{"command":"x","id":"a","after":["b",1,"b"]}`, `{"id":1.50,"after":"","dir":1}`, `{"id":null,"after":{}}`,
		`{"a":"\ud83d\ude00","b":"\ud800"}`, `{"id":1e1000}`, `{"timeout":1e1000}`, `{"a":{"b":{"c":[1, 2]}},"a.b":"x"}`, `{"a":1,"a":2}`, "{\"a\":\"\xff\"}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := parseObject(s)
		if err != nil {
			return
		}
		require.True(t, json.Valid([]byte(s)) && utf8.ValidString(s))
		var want map[string]any
		d := json.NewDecoder(strings.NewReader(s))
		d.UseNumber() // 1e1000 is not a float64
		require.NoError(t, d.Decode(&want))
		require.Len(t, o, len(want))
		for name, v := range want {
			got, ok, err := o.member(name)
			require.True(t, ok)
			require.NoError(t, err)
			if text, is := v.(string); is {
				require.Equal(t, text, got)
				require.NotContains(t, got+name, "\ufffd", "or the input holds it")
			}
		}
		if d, err := parseDescription(o); err == nil {
			require.GreaterOrEqual(t, d.Timeout, time.Duration(-1))
			require.False(t, slices.Contains(d.After, ""))
		} else {
			require.Equal(t, &description{Name: d.Name}, d)
		}
	})
}

// TestRecordsForWorkersAreCheap checks that all tasks of a worker share its command, and that none has
// a copy of its record.
func TestRecordsForWorkersAreCheap(t *testing.T) {
	const records = 1000
	src, err := example{Command: &expand.Config{Words: []string{"cat"}}, Protocol: task.LineProtocol}.open(t, io.LimitReader(repeat("1234567\n"), 8*records), "")
	require.NoError(t, err)
	number := func() uint64 { return 1 }
	require.LessOrEqual(t, testing.AllocsPerRun(records-1, func() {
		if tk, err := src.Next(number); err != nil || string(tk.Stdin) != "1234567" {
			t.Error(tk, err)
		}
	}), 4.0, "the task, its records, its columns and its text")
}
