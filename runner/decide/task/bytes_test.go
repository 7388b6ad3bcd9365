package task

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"crew/runner/crewtest"
)

func TestBytesInJSON(t *testing.T) {
	for s, want := range map[Bytes]string{
		"": `""`, "a\"b\n\x00é😀�<&>": "\"a\\\"b\\n\\u0000é😀�<&>\"", "a\xff": `{"base64":"Yf8="}`,
	} {
		require.Equal(t, want, string(s.Append(nil)))
	}
	var got Bytes
	require.ErrorContains(t, json.Unmarshal([]byte("\"\xff\""), &got), "not UTF-8")
}

// FuzzBytes: every string survives JSON, on one line, and encoding/json decodes UTF-8 text to the same
// string.
func FuzzBytes(f *testing.F) {
	crewtest.Seeds(f, "", "plain", "a\xffb", "\x00\n\"\\", "\u2028�😀", "{\"base64\":\"QQ==\"}", "\xed\xa0\x80", "\"0\" ")
	f.Fuzz(func(t *testing.T, s string) {
		text, err := json.Marshal([]Bytes{Bytes(s)})
		require.NoError(t, err)
		require.False(t, bytes.ContainsRune(text, '\n'), "%s", text)
		var got []Bytes
		require.NoError(t, json.Unmarshal(text, &got))
		require.Equal(t, []Bytes{Bytes(s)}, got, "%s", text)

		s = strings.Trim(s, " \t\r\n") // encoding/json takes the spaces around a value away
		var any Bytes
		if json.Valid([]byte(s)) && any.UnmarshalJSON([]byte(s)) == nil { // JSON that was not made here
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
