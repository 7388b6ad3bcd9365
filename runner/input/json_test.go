package input

import (
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestObjectErrors(t *testing.T) {
	for in, want := range map[string]string{
		`[1]`:                            `not a JSON object`,
		`null`:                           `not a JSON object`,
		``:                               `not a JSON object`,
		`{"args":["a"]`:                  `not a JSON object: it has no end`,
		`{"a":1`:                         `not a JSON object: it has no end`,
		`{"a`:                            `not a JSON object: it has no end`,
		`{"a":}`:                         `not a JSON object: invalid character '}' looking for beginning of value`,
		`{"a" 1}`:                        `not a JSON object: expected colon after object key`,
		`{1:2}`:                          `not a JSON object: invalid character '1'`,
		`{"a":1,}`:                       `not a JSON object: invalid character '}'`,
		`{} {}`:                          `not a JSON object: text follows it`,
		`{"a":1,"b":2,"\u0061":3}`:       `two members are called "a"`,
		"{\"a\":\"\xff\"}":               `not UTF-8, as JSON must be`,
		`{"a":"\ud800"}`:                 `\ud800 is half of a character`,
		`{"a":"x\\\uDFFFy"}`:             `\uDFFF is half of a character`,
		`{"a":["\udbff\udbff\udc00"]}`:   `\udbff is half of a character`,
		`{"a":"\ud83d\u0041\ude00"}`:     `\ud83d is half of a character`,
		`{"\ud83d\ude00\ude00":"never"}`: `\ude00 is half of a character`,
	} {
		_, err := parseObject(in)
		require.ErrorContains(t, err, want, in)
	}
}

func TestMember(t *testing.T) {
	obj, err := parseObject(`{"s":"a\t\ud83d\ude00\\ud800","n":1.50,"t":true,"null":null,"list":[ 1, "<" ],"o":{ "x": {"y.z":"deep"} },
		"user.id":"literal","user":{"id":"inner","name":"n"},"a":{"b.c":1},"a.b":{"c":2},"twice":{"x":1,"x":2}}`)
	require.NoError(t, err)
	for name, want := range map[string]string{
		"s": "a\t😀\\ud800", "n": "1.50", "t": "true", "null": "", "list": `[1,"<"]`, "o": `{"x":{"y.z":"deep"}}`,
		"o.x": `{"y.z":"deep"}`, "o.x.y.z": "deep", "user.id": "literal", "user.name": "n", "a.b.c": "1", "a.b": `{"c":2}`,
	} {
		got, ok, err := obj.member(name)
		require.NoError(t, err, name)
		require.True(t, ok, name)
		require.Equal(t, want, got, name)
	}
	for _, name := range []string{"x", "s.x", "list.0", "o.y", "null.x", "o.x.y"} {
		_, ok, err := obj.member(name)
		require.NoError(t, err, name)
		require.False(t, ok, name)
	}
	_, _, err = obj.member("twice.x")
	require.EqualError(t, err, `"twice": two members are called "x"`)
	_, err = obj.fields([]string{"s", "uesr.id"})
	require.EqualError(t, err, `the object has no member "uesr.id": did you mean "user.id"?`)
	_, err = obj.fields([]string{"elsewhere"})
	require.EqualError(t, err, `the object has no member "elsewhere"`)
}

// What parseObject accepts, encoding/json reads alike, and nothing in it is altered.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{
		`{"args":["a",1,null],"x":{"y":[]},"timeout":1e9}`, `{"env":{"A":"b"},"command":["x"],"timeout":"1h"}`,
		`{"command":"x","id":"a","after":["b",1,"b"]}`, `{"id":1.50,"after":"","dir":1}`, `{"id":null,"after":{}}`,
		`{"a":"\ud83d\ude00","b":"\ud800"}`, `{"a":{"b":{"c":[1, 2]}},"a.b":"x"}`, `{"a":1,"a":2}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		o, err := parseObject(s)
		if err != nil {
			return
		}
		require.True(t, json.Valid([]byte(s)))
		require.True(t, utf8.ValidString(s))
		var want map[string]any
		require.NoError(t, json.Unmarshal([]byte(s), &want))
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
		d, err := describe(o)
		if err == nil {
			require.GreaterOrEqual(t, d.Timeout, time.Duration(-1))
		} else {
			require.Equal(t, &description{ID: d.ID}, d)
		}
		require.NotContains(t, d.After, "")
		if d.ID != "" {
			id, _, err := o.member("id")
			require.NoError(t, err)
			require.Equal(t, id, d.ID)
		}
	})
}
