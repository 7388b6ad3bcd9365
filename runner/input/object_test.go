package input

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"crew/runner/expand"
	"crew/runner/task"
)

func TestDescribe(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want description
	}{
		{`{"args":["x","",""]}`, description{Args: []string{"x", "", ""}}},
		{` { "args" : ["a b", 1.50, true, "é\u0000"] } `, description{Args: []string{"a b", "1.50", "true", "é\x00"}}},
		{`{"command":"ls {}"}`, description{Command: []string{"ls {}"}, Script: true}},
		{`{"command":["ls","-l",7]}`, description{Command: []string{"ls", "-l", "7"}}},
		{`{"key":"k","cost":2.5}`, description{Key: some("k"), Cost: some("2.5")}},
		{`{"key":7,"cost":"3"}`, description{Key: some("7"), Cost: some("3")}},
		{`{"env":{"B":"2","A":"x=y"},"dir":"/tmp","stdin":"in\n"}`, description{Env: []string{"A=x=y", "B=2"}, Dir: "/tmp", Stdin: []byte("in\n")}},
		{`{"stdin":""}`, description{Stdin: []byte{}}},
		{`{"timeout":"1m30s"}`, description{Timeout: 90 * time.Second}},
		{`{"priority":-5,"weight":"2","needs":"gpu,db:2"}`, description{Terms: written{some("-5"), some("2"), some("gpu,db:2")}}},
		{`{"needs":["gpu","db:2,net"],"weight":null}`, description{Terms: written{2: some("gpu,db:2,net")}}},
		{`{"needs":[]}`, description{Terms: written{2: some("")}}},
		{`{"timeout":1.5}`, description{Timeout: 1500 * time.Millisecond}},
		{`{"timeout":0}`, description{Timeout: -1}},
		{`{"timeout":1e1}`, description{Timeout: 10 * time.Second}},
		{`{"timeout":"1d"}`, description{Timeout: 24 * time.Hour}},
		{`{"timeout":"0s"}`, description{Timeout: -1}},
		{`{"id":"a b\u00e9","after":"x"}`, description{ID: "a bé", After: []string{"x"}}},
		{`{"id":1.50,"after":["x",7,true,"x"]}`, description{ID: "1.50", After: []string{"x", "7", "true", "x"}}},
		{`{"id":"[]","after":[]}`, description{ID: "[]", After: []string{}}},
		{`{"id":false,"after":1e3}`, description{ID: "false", After: []string{"1e3"}}},
		{`{"args":["x"],"command":null,"key":null,"cost":null,"env":null,"dir":null,"stdin":null,"timeout":null,"id":null,"after":null}`,
			description{Args: []string{"x"}}},
	} {
		obj, err := parseObject(tc.in)
		require.NoError(t, err, tc.in)
		if tc.want.Args == nil {
			tc.want.Args = []string{}
		}
		if tc.want.Command == nil && len(tc.want.Args) == 0 {
			obj["command"], tc.want.Command = json.RawMessage(`["x"]`), []string{"x"}
		}
		got, err := describe(obj)
		require.NoError(t, err, tc.in)
		require.Equal(t, &tc.want, got, tc.in)
	}
}

func TestDescribeErrors(t *testing.T) {
	for in, want := range map[string]string{
		`{"timout":1}`:               `"timout" is no member of a task: did you mean "timeout"?`,
		`{"Command":"x"}`:            `"Command" is no member of a task: did you mean "command"?`,
		`{"colour":null}`:            `"colour" is no member of a task: it has after, args, command, cost, dir, env, id, key, needs, priority, stdin, timeout, weight`,
		`{"weight":[1]}`:             `"weight" is not a string, a number, true or false`,
		`{"priority":{}}`:            `"priority" is not a string, a number, true or false`,
		`{"needs":1}`:                `"needs" is not a string and not an array of strings`,
		`{"needs":["gpu",{}]}`:       `"needs" [1] is not a string, a number, true or false`,
		`{}`:                         `no command: neither the command line nor "command" nor "args" has one`,
		`{"args":[""],"key":"k"}`:    `no command: neither the command line nor "command" nor "args" has one`,
		`{"args":"a"}`:               `"args" is not an array`,
		`{"args":["a",["b"]]}`:       `"args" [1] is not a string, a number, true or false`,
		`{"args":[null]}`:            `"args" [0] is not a string, a number, true or false`,
		`{"command":7}`:              `"command" is not a string and not an array of words`,
		`{"command":" "}`:            `"command" is empty`,
		`{"command":[]}`:             `"command" is empty`,
		`{"command":[{}]}`:           `"command" [0] is not a string, a number, true or false`,
		`{"key":[]}`:                 `"key" is not a string, a number, true or false`,
		`{"cost":{}}`:                `"cost" is not a string, a number, true or false`,
		`{"env":["A=1"]}`:            `"env" is not an object of strings: not a JSON object`,
		`{"env":{"A":"1","A":"2"}}`:  `"env" is not an object of strings: two members are called "A"`,
		`{"env":{"A":1}}`:            `"env" is not an object of strings: "A" is not a string`,
		`{"env":{"A=B":""}}`:         `"env" holds "A=B", which cannot be in an environment`,
		`{"env":{"A":"\u0000"}}`:     `"env" holds "A", which cannot be in an environment`,
		`{"dir":""}`:                 `"dir" is empty`,
		`{"dir":1}`:                  `"dir" is not a string`,
		`{"stdin":1}`:                `"stdin" is not a string`,
		`{"timeout":"soon"}`:         `"timeout" is "soon": write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`,
		`{"timeout":true}`:           `"timeout" is not a string and not a number of seconds`,
		`{"timeout":-1e-20}`:         `"timeout" is -1e-20: write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`,
		`{"timeout":"-1s"}`:          `"timeout" is "-1s": write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`,
		`{"timeout":1e300}`:          `"timeout" is 1e300: write a time such as 10, 1.5s, 500ms, 2m or 1d, at most 36500d`,
		`{"timeout":1,"command":""}`: `"command" is empty`,
		`{"Id":1}`:                   `"Id" is no member of a task: did you mean "id"?`,
		`{"afters":1}`:               `"afters" is no member of a task: did you mean "after"?`,
		`{"id":""}`:                  `"id" is empty`,
		`{"id":["a"]}`:               `"id" is not a string, a number, true or false`,
		`{"id":{}}`:                  `"id" is not a string, a number, true or false`,
		`{"after":""}`:               `"after" is empty`,
		`{"after":{}}`:               `"after" is not an id and not an array of ids`,
		`{"after":["a",""]}`:         `"after" [1] is empty`,
		`{"after":["",null]}`:        `"after" [1] is not a string, a number, true or false`,
		`{"after":[["a"]]}`:          `"after" [0] is not a string, a number, true or false`,
		`{"stdin":1,"dir":1}`:        `"dir" is not a string`,
	} {
		obj, err := parseObject(in)
		require.NoError(t, err, in)
		d, err := describe(obj)
		require.EqualError(t, err, want, in)
		require.Equal(t, &description{}, d, in)
	}
}

// A task has the id of its record and comes after those whose ids are in "after". What is
// wrong with either fails it by name, and an id counts even if something else is wrong.
func TestTerms(t *testing.T) {
	const at = "line %d of standard input: "
	type terms = *task.Terms
	for _, tc := range []struct {
		what  string
		lines []string
		terms []terms  // of each task
		errs  []string // of each task, without the place
	}{
		{"neither", []string{`{}`, `{"id":null,"after":null}`, `{"after":[]}`}, []terms{nil, nil, nil}, []string{"", "", ""}},
		{"ids alone", []string{`{"id":"a"}`, `{}`, `{"id":"b","after":[]}`}, []terms{{Name: "a"}, nil, {Name: "b"}}, []string{"", "", ""}},
		{"one before", []string{`{}`, `{"id":"a"}`, `{"after":"a"}`}, []terms{nil, {Name: "a"}, {After: []uint64{2}}}, []string{"", "", ""}},
		{"several, each once and in order", []string{`{"id":"a"}`, `{"id":"b"}`, `{"id":3,"after":["b","a","b"]}`, `{"after":["3",1e0,"a"],"id":1e0}`,
			`{"after":["3","a"]}`},
			[]terms{{Name: "a"}, {Name: "b"}, {Name: "3", After: []uint64{1, 2}}, {Name: "1e0"}, {After: []uint64{1, 3}}},
			[]string{"", "", "", `"after": the record itself has the id "1e0"`, ""}},
		{"one that comes later or never", []string{`{"after":"b"}`, `{"id":"b","after":["b"]}`, `{"id":"c","after":["b","d"]}`, `{"after":["b","c"]}`},
			[]terms{nil, {Name: "b"}, {Name: "c"}, {After: []uint64{2, 3}}},
			[]string{`"after": no record before has the id "b"`, `"after": the record itself has the id "b"`, `"after": no record before has the id "d"`, ""}},
		{"an id twice", []string{`{"id":"a"}`, `{"id":"a","after":"a"}`, `{"id":"a","after":"x"}`, `{"after":"a"}`},
			[]terms{{Name: "a"}, nil, nil, {After: []uint64{1}}}, []string{"", `"id" "a" is that of task 1, too`, `"id" "a" is that of task 1, too`, ""}},
		{"a number and a string are alike", []string{`{"id":1}`, `{"id":"1"}`, `{"id":1.0}`},
			[]terms{{Name: "1"}, nil, {Name: "1.0"}}, []string{"", `"id" "1" is that of task 1, too`, ""}},
		{"an id is not one of another case", []string{`{"id":"a"}`, `{"after":"A"}`, `{"after":"a "}`}, []terms{{Name: "a"}, nil, nil},
			[]string{"", `"after": no record before has the id "A"`, `"after": no record before has the id "a "`}},
		{"of records with another error", []string{`{"id":"a","dir":1}`, `{"id":"b","colour":1,"after":["a"]}`, `{"id":"c","after":{}}`, `{"id":"a","dir":1}`,
			`{"id":"","after":["a"]}`, `{"id":[],"after":"z"}`, `{"id":"d"`, `{"after":["c","b","a"]}`, `{"after":"d"}`},
			[]terms{{Name: "a"}, {Name: "b"}, {Name: "c"}, nil, nil, nil, nil, {After: []uint64{1, 2, 3}}, nil},
			[]string{`"dir" is not a string`, `"colour" is no member of a task: it has after, args, command, cost, dir, env, id, key, needs, priority, stdin, timeout, weight`,
				`"after" is not an id and not an array of ids`, `"dir" is not a string`, `"id" is empty`, `"id" is not a string, a number, true or false`,
				`not a JSON object: it has no end on its line: jq -c . makes a line of each object`, "", `"after": no record before has the id "d"`}},
	} {
		for i, line := range tc.lines { // each gets a command
			tc.lines[i] = strings.Replace(strings.Replace(line, "{", `{"command":"x",`, 1), ",}", "}", 1)
		}
		list := tasks(t, objects(tc.lines...), TasksConfig{Template: template(t, expand.Config{Fields: true}), Objects: true})
		require.Len(t, list, len(tc.terms), tc.what)
		for i, tk := range list {
			require.Equal(t, tc.terms[i], tk.Asked, "%s: task %d", tc.what, i+1)
			if tc.errs[i] == "" {
				require.NoError(t, tk.Err, "%s: task %d", tc.what, i+1)
				require.Equal(t, []string{"x"}, tk.Argv)
				continue
			}
			require.EqualError(t, tk.Err, fmt.Sprintf(at, i+1)+tc.errs[i], "%s: task %d", tc.what, i+1)
			require.Nil(t, tk.Argv)
		}
	}
}

// The id of a task that cannot run for another reason than its members counts, too.
func TestTermsOfRefused(t *testing.T) {
	cfg := TasksConfig{Template: template(t, expand.Config{Fields: true}), Objects: true, Texts: Texts{Tag: textOf(t, "{key}")}}
	list := tasks(t, objects(`{"id":"a","command":"x","key":1,"cost":0}`, `{"id":"b","command":"x","after":"a"}`,
		`{"id":"c","command":"cd /; ls","args":["x"],"key":1}`, `{"command":"x","key":1,"after":["a","b","c"]}`), cfg)
	require.EqualError(t, list[0].Err, `cost "0" is not a positive number`)
	require.EqualError(t, list[1].Err, `line 2 of standard input: the object has no member "key"`)
	require.ErrorContains(t, list[2].Err, "the script does not mention its arguments")
	require.NoError(t, list[3].Err)
	require.Equal(t, []uint64{1, 2, 3}, list[3].Terms().After)
	for i, name := range []string{"a", "b", "c"} {
		require.Equal(t, name, list[i].Terms().Name)
	}
}

// Records of other shares have no ids here, and counting the others needs none.
func TestTermsOfShare(t *testing.T) {
	in := []string{`{"id":"a","command":"x"}`, `{"id":"b","command":"y"}`, `{"after":"a","command":"y"}`, `{"after":"b","command":"y"}`, `{"id":"b","command":"y"}`}
	cfg := TasksConfig{Template: template(t, expand.Config{Fields: true}), Objects: true, Share: func(tk *task.Task) bool {
		require.Nil(t, tk.Asked)
		return tk.Argv[0] == "y"
	}}
	list := tasks(t, objects(in...), cfg)
	require.Equal(t, "y|!line 3 of standard input: \"after\": no record before has the id \"a\"|y|"+
		"!line 5 of standard input: \"id\" \"b\" is that of task 1, too", show(list))
	require.Equal(t, &task.Terms{After: []uint64{1}}, list[2].Asked)
	n, ok := Count(objects(in...), cfg, new(atomic.Bool))
	require.True(t, ok)
	require.EqualValues(t, 4, n)
}

// A malformed line becomes one record with an Err and does not affect the others.
func TestJSONLines(t *testing.T) {
	in := "\ufeff{\"a\":1}\n\n \r\nnonsense\n {\"b\":2}\r\n{\"c\":3}{}"
	for _, p := range pieces {
		got := columns(t, Config{Stdin: p.of(strings.NewReader(in)), Format: Format{Kind: JSON}})
		require.Equal(t, [][]string{{`{"a":1}`}, {"!line 4 of standard input: not a JSON object"}, {" {\"b\":2}\r"},
			{`!line 6 of standard input: not a JSON object: text follows it`}}, got)
	}
}
