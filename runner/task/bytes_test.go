package task

import (
	"bytes"
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBytesInJSON(t *testing.T) {
	for s, want := range map[Bytes]string{
		"": `""`, "a\"b\n\x00é😀�<&>": "\"a\\\"b\\n\\u0000é😀�<&>\"", "a\xff": `{"base64":"Yf8="}`,
	} {
		require.Equal(t, want, string(s.Append(nil)))
	}
	var got Bytes
	require.NoError(t, json.Unmarshal([]byte(`"\ud83d\ude00 \\ud800 \ufffd"`), &got))
	require.EqualValues(t, "😀 \\ud800 �", got)
	require.NoError(t, json.Unmarshal([]byte(` { "base64" : "QQ==" } `), &got))
	require.EqualValues(t, "A", got)
	for text, want := range map[string]string{
		`null`: "neither", `7`: "neither", `["a"]`: "neither", `{}`: "neither", `{"base64":null}`: "neither",
		`{"base64":"QQ==","x":1}`: "neither", `{"base64":"QQ="}`: "not base64", `{"base64":"QR=="}`: "not base64",
		`"\ud83d"`: `\ud83d is half`, `"\ude00\ud83d"`: `\ude00 is half`, "\"\xff\"": "not UTF-8",
	} {
		require.ErrorContains(t, json.Unmarshal([]byte(text), &got), want, "%s", text)
	}
	require.Error(t, got.UnmarshalJSON([]byte(`"a" `+`b`)))
	require.Error(t, got.UnmarshalJSON(nil))
}

// FuzzBytes: every string survives JSON, on one line, and encoding/json reads the
// form of UTF-8 text in the same way.
func FuzzBytes(f *testing.F) {
	for _, s := range []string{"", "plain", "a\xffb", "\x00\n\"\\", "\u2028�😀", "{\"base64\":\"QQ==\"}", "\xed\xa0\x80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text, err := json.Marshal([]Bytes{Bytes(s)})
		require.NoError(t, err)
		require.False(t, bytes.ContainsRune(text, '\n'), "%s", text)
		var got []Bytes
		require.NoError(t, json.Unmarshal(text, &got))
		require.Equal(t, []Bytes{Bytes(s)}, got, "%s", text)

		var any Bytes
		if any.UnmarshalJSON([]byte(s)) == nil { // JSON that was not made here
			var again Bytes
			require.NoError(t, again.UnmarshalJSON(any.Append(nil)))
			require.Equal(t, any, again)
			var plain string
			if json.Unmarshal([]byte(s), &plain) == nil {
				require.Equal(t, plain, string(any), strconv.Quote(s))
			}
		}
	})
}
