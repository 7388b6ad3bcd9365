package input

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDescribe(t *testing.T) {
	p := func(s string) *string { return &s }
	for _, tc := range []struct {
		in   string
		want description
	}{
		{`{"args":["x","",""]}`, description{Args: []string{"x", "", ""}}},
		{` { "args" : ["a b", 1.50, true, "é\u0000"] } `, description{Args: []string{"a b", "1.50", "true", "é\x00"}}},
		{`{"command":"ls {}"}`, description{Command: []string{"ls {}"}, Script: true}},
		{`{"command":["ls","-l",7]}`, description{Command: []string{"ls", "-l", "7"}}},
		{`{"key":"k","cost":2.5}`, description{Key: p("k"), Cost: p("2.5")}},
		{`{"key":7,"cost":"3"}`, description{Key: p("7"), Cost: p("3")}},
		{`{"env":{"B":"2","A":"x=y"},"dir":"/tmp","stdin":"in\n"}`, description{Env: []string{"A=x=y", "B=2"}, Dir: "/tmp", Stdin: []byte("in\n")}},
		{`{"stdin":""}`, description{Stdin: []byte{}}},
		{`{"timeout":"1m30s"}`, description{Timeout: 90 * time.Second}},
		{`{"timeout":1.5}`, description{Timeout: 1500 * time.Millisecond}},
		{`{"timeout":0}`, description{Timeout: -1}},
		{`{"timeout":1e1}`, description{Timeout: 10 * time.Second}},
		{`{"timeout":"1d"}`, description{Timeout: 24 * time.Hour}},
		{`{"timeout":"0s"}`, description{Timeout: -1}},
		{`{"args":["x"],"command":null,"key":null,"cost":null,"env":null,"dir":null,"stdin":null,"timeout":null}`, description{Args: []string{"x"}}},
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
		`{"weight":null}`:            `"weight" is no member of a task: it has args, command, cost, dir, env, key, stdin, timeout`,
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
	} {
		obj, err := parseObject(in)
		require.NoError(t, err, in)
		_, err = describe(obj)
		require.EqualError(t, err, want, in)
	}
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
