package task

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
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
	isString := bytes.HasPrefix(text, []byte{'"'})
	switch {
	case !utf8.Valid(text):
		return errors.New("not UTF-8, as JSON must be")
	case isString && bytes.IndexByte(text, '\\') < 0:
		*s = Bytes(text[1 : len(text)-1]) // fast path: environments have many
		return nil
	case isString:
		err := json.Unmarshal(text, (*string)(s))
		if half := HalfSurrogate(string(text)); err == nil && half != "" {
			err = fmt.Errorf("%s is half of a character", half)
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

// surrogates matches escaped backslashes, surrogate pairs, and halves of a pair as the group.
var surrogates = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(\\u[dD][89a-fA-F]..)`)
})

// HalfSurrogate returns the first escape in valid JSON that is one half of a
// surrogate pair without the other, or "".
func HalfSurrogate(text string) string {
	if strings.Contains(text, `\ud`) || strings.Contains(text, `\uD`) { // the pattern takes long
		for _, found := range surrogates().FindAllStringSubmatch(text, -1) {
			if found[1] != "" {
				return found[1]
			}
		}
	}
	return ""
}
