package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"crew/runner/decide/task"
)

// Object is a JSON object: JSON texts by the names of the members.
type Object map[string]json.RawMessage

// parseObject parses one JSON object. Text that encoding/json would change is an
// error: invalid UTF-8, half of a surrogate pair, or two members with the same name.
func parseObject(text string) (Object, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("not UTF-8, as JSON must be")
	}
	dec := json.NewDecoder(strings.NewReader(text))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	o, err := Object{}, error(nil)
	for err == nil && dec.More() {
		var name json.Token
		var v json.RawMessage
		if name, err = dec.Token(); err == nil {
			err = dec.Decode(&v)
		}
		text, _ := name.(string)
		if _, double := o[text]; double && err == nil {
			return nil, fmt.Errorf("two members are called %q", name)
		}
		o[text] = v
	}
	if err == nil {
		_, err = dec.Token()
	}
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return nil, errors.New("not a JSON object: it has no end on its line: jq -c . makes a line of each object")
	case err != nil:
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("not a JSON object: text follows it")
	}
	if half := task.HalfSurrogate(text); half != "" {
		return nil, fmt.Errorf("%s is half of a character", half)
	}
	return o, nil
}

// member returns the value of {name}: the member called name or, for a name such as a.b, the
// member b of the object a. ok is false if there is none.
func (o Object) member(name string) (value string, ok bool, err error) {
	if v, ok := o[name]; ok {
		value, err = plainText(v)
		return value, true, err
	}
	for i, c := range []byte(name) {
		if v, found := o[name[:i]]; c == '.' && found && v[0] == '{' {
			inner, err := parseObject(string(v))
			if err != nil {
				return "", false, fmt.Errorf("%q: %w", name[:i], err)
			}
			if value, ok, err = inner.member(name[i+1:]); ok || err != nil {
				return value, ok, err
			}
		}
	}
	return "", false, nil
}

// fields returns the values of the placeholders called names. A member may be missing if its name
// ends in a question mark.
func (o Object) fields(names []string) (map[string]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	fields := make(map[string]string, len(names))
	for _, placeholder := range names {
		name, may := strings.CutSuffix(placeholder, "?")
		value, ok, err := o.member(name)
		if err != nil {
			return nil, err
		}
		if !ok && !may {
			return nil, fmt.Errorf("the object has no member %q", name)
		}
		fields[placeholder] = value
	}
	return fields, nil
}

// plainText returns the value of a string, "" for null, and the compact JSON text of any other
// value.
func plainText(v json.RawMessage) (string, error) {
	switch v[0] {
	case '"':
		return parseString(v)
	case 'n':
		return "", nil
	case '[', '{':
		var b bytes.Buffer
		err := json.Compact(&b, v)
		return b.String(), err
	}
	return string(v), nil
}
