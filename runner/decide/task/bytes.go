package task

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Bytes are the bytes of an argument, a path or an environment variable, which need not be UTF-8. In
// JSON they are a string if they are valid UTF-8, and {"base64":"…"} (RFC 4648, section 4) otherwise,
// so no byte is lost.
type Bytes string

// Append appends s in its JSON form.
func (s Bytes) Append(b []byte) []byte {
	if utf8.ValidString(string(s)) {
		return append(AppendJSON(append(b, '"'), string(s)), '"')
	}
	b = append(b, `{"base64":"`...)
	return append(base64.StdEncoding.AppendEncode(b, []byte(s)), `"}`...)
}

// MarshalJSON implements json.Marshaler.
func (s Bytes) MarshalJSON() ([]byte, error) { return s.Append(nil), nil }

// UnmarshalJSON implements json.Unmarshaler. It refuses values that stand for no bytes: null, text
// that is not UTF-8, half of a surrogate pair, and other objects.
func (s *Bytes) UnmarshalJSON(text []byte) error {
	if n := len(text); n > 1 && text[0] == '"' && text[n-1] == '"' && isPlain(text[1:n-1]) {
		*s = Bytes(text[1 : n-1]) // fast path: environments have many
		return nil
	}
	switch {
	case !utf8.Valid(text):
		return errors.New("not UTF-8, as JSON must be")
	case bytes.HasPrefix(text, []byte{'"'}):
		err := json.Unmarshal(text, (*string)(s))
		if err == nil {
			if half := HalfSurrogate(string(text)); half != "" {
				err = fmt.Errorf("%s is half of a character", half)
			}
		}
		return err
	}
	var form struct {
		Base64 *[]byte `json:"base64"`
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if dec.Decode(&form) != nil || form.Base64 == nil {
		return errors.New(`neither a string nor {"base64":"…"}`)
	}
	*s = Bytes(*form.Base64)
	return nil
}

// isPlain reports whether a JSON string with this text has no escapes.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' {
			return false
		}
	}
	return utf8.Valid(text)
}

// HalfSurrogate returns the first escape in valid JSON that is one half of a
// surrogate pair without the other, or "".
func HalfSurrogate(text string) string {
	const size = len(`\ud800`)
	for {
		i := strings.IndexByte(text, '\\')
		if i < 0 {
			return ""
		}
		text = text[i:]
		switch first := escaped(text); {
		case !utf16.IsSurrogate(first):
			text = text[2:]
		case utf16.DecodeRune(first, escaped(text[size:])) == utf8.RuneError:
			return text[:size]
		default:
			text = text[2*size:]
		}
	}
}

// escaped returns the code unit whose escape s begins with, or 0.
func escaped(s string) rune {
	if !strings.HasPrefix(s, `\u`) {
		return 0
	}
	n, _ := strconv.ParseUint(s[2:6], 16, 16) // the JSON is valid
	return rune(n)
}
