package input

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestObject(t *testing.T) {
	p := func(s string) *string { return &s }
	for _, tc := range []struct {
		in   string
		want Object
	}{
		{`{}`, Object{Empty: true}},
		{`{"args":[""],"key":null}`, Object{Args: []string{""}, Empty: true}},
		{`{"args":["",""]}`, Object{Args: []string{"", ""}}},
		{`{"args":[],"list":[1]}`, Object{}},
		{` { "args" : ["a b", 1.50, true, "é\u0000"] } `, Object{Args: []string{"a b", "1.50", "true", "é\x00"}}},
		{`{"command":"ls {}"}`, Object{Command: []string{"ls {}"}}},
		{`{"command":["ls","-l",7]}`, Object{Command: []string{"ls", "-l", "7"}}},
		{`{"key":"k","cost":2.5}`, Object{Key: p("k"), Cost: p("2.5")}},
		{`{"key":7,"cost":"3"}`, Object{Key: p("7"), Cost: p("3")}},
		{`{"env":{"B":"2","A":"x=y"},"dir":"/tmp","stdin":"in\n"}`, Object{Env: []string{"A=x=y", "B=2"}, Dir: "/tmp", Stdin: []byte("in\n")}},
		{`{"stdin":""}`, Object{Stdin: []byte{}}},
		{`{"timeout":"1m30s"}`, Object{Timeout: 90 * time.Second}},
		{`{"timeout":1.5}`, Object{Timeout: 1500 * time.Millisecond}},
		{`{"timeout":0}`, Object{Timeout: -1}},
		{`{"timeout":"0s"}`, Object{Timeout: -1}},
		{`{"args":null,"command":null,"key":null,"cost":null,"env":null,"dir":null,"stdin":null,"timeout":null}`, Object{Empty: true}},
		{`{"name":"n","Args":3,"no":null,"yes":false,"list":[1],"o":{}}`, Object{Fields: map[string]string{"name": "n", "Args": "3", "no": "", "yes": "false"}}},
		{`{"key":"a","key":"b"}`, Object{Key: p("b")}},
	} {
		got, err := parseObject(tc.in)
		require.NoError(t, err, tc.in)
		if tc.want.Args == nil {
			tc.want.Args = []string{}
		}
		require.Equal(t, &tc.want, got, tc.in)
	}
}

func TestObjectErrors(t *testing.T) {
	for in, want := range map[string]string{
		`[1]`:                        `not a JSON object`,
		`null`:                       `not a JSON object`,
		`{"args":["a"]`:              `not a JSON object: unexpected end of JSON input`,
		`{} {}`:                      `not a JSON object: invalid character '{' after top-level value`,
		`{"args":"a"}`:               `"args" is not an array`,
		`{"args":["a",["b"]]}`:       `"args" [1] is not a string, a number, true or false`,
		`{"args":[null]}`:            `"args" [0] is not a string, a number, true or false`,
		`{"command":7}`:              `"command" is not a string and not an array of words`,
		`{"command":" "}`:            `"command" is empty`,
		`{"command":[]}`:             `"command" is empty`,
		`{"command":[{}]}`:           `"command" [0] is not a string, a number, true or false`,
		`{"key":[]}`:                 `"key" is not a string, a number, true or false`,
		`{"cost":{}}`:                `"cost" is not a string, a number, true or false`,
		`{"env":["A=1"]}`:            `"env" is not an object of strings`,
		`{"env":{"A":1}}`:            `"env" is not an object of strings: "A" is not a string`,
		`{"env":{"A=B":""}}`:         `"env" holds "A=B", which cannot be in an environment`,
		`{"env":{"A":"\u0000"}}`:     `"env" holds "A", which cannot be in an environment`,
		`{"dir":""}`:                 `"dir" is empty`,
		`{"dir":1}`:                  `"dir" is not a string`,
		`{"stdin":1}`:                `"stdin" is not a string`,
		`{"timeout":"soon"}`:         `"timeout" is not a duration such as 1.5s: "soon"`,
		`{"timeout":true}`:           `"timeout" is not a duration such as "1.5s" and not a number of seconds`,
		`{"timeout":-1e-20}`:         `"timeout" is not a time that can be waited for: -1e-20`,
		`{"timeout":"-1s"}`:          `"timeout" is not a time that can be waited for: "-1s"`,
		`{"timeout":1e300}`:          `"timeout" is not a time that can be waited for: 1e300`,
		`{"timeout":1,"command":""}`: `"command" is empty`,
	} {
		_, err := parseObject(in)
		require.EqualError(t, err, want, in)
	}
}

// A malformed line becomes one record with an Err and does not affect the others.
func TestJSONLines(t *testing.T) {
	in := "\ufeff{\"args\":[\"a\"]}\n\n \r\nnonsense\n{\"args\":[\"b\"]}\r\n{\"args\":1}"
	for _, p := range pieces {
		got := columns(t, Config{Stdin: p.of(strings.NewReader(in)), Format: Format{Kind: JSON}})
		require.Equal(t, [][]string{{"a"}, {"!line 4 of standard input: not a JSON object"}, {"b"},
			{`!line 6 of standard input: "args" is not an array`}}, got)
	}
}

func FuzzJSON(f *testing.F) {
	f.Add(`{"args":["a",1,null],"x":{"y":[]},"timeout":1e9}`)
	f.Add(`{"env":{"A":"b"},"command":["x"],"timeout":"1h"}`)
	f.Fuzz(func(t *testing.T, s string) {
		o, err := parseObject(s)
		if err != nil {
			return
		}
		require.True(t, json.Valid([]byte(s)))
		require.NotNil(t, o.Args)
		require.GreaterOrEqual(t, o.Timeout, time.Duration(-1))
	})
}
