package input

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// Object is a task as a JSON object says it.
type Object struct {
	Args    []string          // never nil
	Command []string          // "command": words, or one string; nil without it
	Key     *string           // nil without it
	Cost    *string           // the number as it stands; nil without it
	Env     []string          // "NAME=value", sorted
	Dir     string            // empty without it
	Stdin   []byte            // nil without it, not nil where it is ""
	Timeout time.Duration     // 0 without it
	Fields  map[string]string // every other field that is no array and no object; null is ""
	Empty   bool              // there is nothing but args, and in them no byte, as in an empty line
}

// parseObject reads one JSON object. A known field that is null counts as
// missing; of two fields of one name the last counts.
func parseObject(text string) (*Object, error) {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return nil, errors.New("not a JSON object")
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	maps.DeleteFunc(raw, func(name string, v json.RawMessage) bool { return known(name) && string(v) == "null" })
	o := &Object{Args: []string{}}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if err := o.set(name, raw[name]); err != nil {
			return nil, fmt.Errorf("%q %w", name, err)
		}
	}
	delete(raw, "args")
	o.Empty = len(raw) == 0 && (len(o.Args) == 0 || len(o.Args) == 1 && o.Args[0] == "")
	return o, nil
}

// set takes one field of the object. Its error goes on after the field's name.
func (o *Object) set(name string, v json.RawMessage) (err error) {
	switch name {
	case "args":
		o.Args, err = scalars(v)
	case "command":
		o.Command, err = command(v)
	case "key":
		o.Key, err = some(scalar(v))
	case "cost":
		o.Cost, err = some(scalar(v))
	case "env":
		o.Env, err = environment(v)
	case "dir":
		o.Dir, err = text(v)
		if err == nil && o.Dir == "" {
			err = errors.New("is empty")
		}
	case "stdin":
		var s string
		s, err = text(v)
		o.Stdin = []byte(s)
	case "timeout":
		o.Timeout, err = timeout(v)
	default:
		if s, err := scalar(v); err == nil {
			if o.Fields == nil {
				o.Fields = make(map[string]string)
			}
			o.Fields[name] = s
		}
	}
	return err
}

func known(name string) bool {
	switch name {
	case "args", "command", "key", "cost", "env", "dir", "stdin", "timeout":
		return true
	}
	return false
}

func some(s string, err error) (*string, error) { return &s, err }

// text is the value of a JSON string.
func text(v json.RawMessage) (string, error) {
	if v[0] != '"' {
		return "", errors.New("is not a string")
	}
	var s string
	err := json.Unmarshal(v, &s)
	return s, err
}

// scalar is the value of a JSON string, or the text of a number, true or false;
// null is empty.
func scalar(v json.RawMessage) (string, error) {
	switch v[0] {
	case '"':
		return text(v)
	case '[', '{':
		return "", errors.New("is not a string, a number, true or false")
	case 'n':
		return "", nil
	}
	return string(v), nil
}

func scalars(v json.RawMessage) ([]string, error) {
	var raw []json.RawMessage
	if json.Unmarshal(v, &raw) != nil {
		return nil, errors.New("is not an array")
	}
	list := make([]string, len(raw))
	for i, e := range raw {
		s, err := scalar(e)
		if err != nil || string(e) == "null" {
			return nil, fmt.Errorf("[%d] is not a string, a number, true or false", i)
		}
		list[i] = s
	}
	return list, nil
}

func command(v json.RawMessage) ([]string, error) {
	if v[0] == '"' {
		s, err := text(v)
		if err == nil && strings.TrimSpace(s) == "" {
			err = errors.New("is empty")
		}
		return []string{s}, err
	}
	if v[0] != '[' {
		return nil, errors.New("is not a string and not an array of words")
	}
	words, err := scalars(v)
	if err == nil && (len(words) == 0 || words[0] == "") {
		err = errors.New("is empty")
	}
	return words, err
}

func environment(v json.RawMessage) ([]string, error) {
	var raw map[string]json.RawMessage
	if json.Unmarshal(v, &raw) != nil {
		return nil, errors.New("is not an object of strings")
	}
	list := make([]string, 0, len(raw))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		s, err := text(raw[name])
		if err != nil {
			return nil, fmt.Errorf("is not an object of strings: %q %w", name, err)
		}
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(s, "\x00") {
			return nil, fmt.Errorf("holds %q, which cannot be in an environment", name)
		}
		list = append(list, name+"="+s)
	}
	return list, nil
}

// timeout reads a duration as package time writes it, or a number of seconds.
func timeout(v json.RawMessage) (time.Duration, error) {
	var d time.Duration
	if s, err := text(v); err == nil {
		if d, err = time.ParseDuration(s); err != nil {
			return 0, fmt.Errorf("is not a duration such as 1.5s: %q", s)
		}
	} else {
		var seconds float64
		if json.Unmarshal(v, &seconds) != nil {
			return 0, errors.New("is not a duration such as \"1.5s\" and not a number of seconds")
		}
		if seconds *= float64(time.Second); seconds < math.MaxInt64 {
			d = time.Duration(math.Ceil(seconds))
		}
	}
	if d <= 0 {
		return 0, fmt.Errorf("is not a time that can be waited for: %s", v)
	}
	return d, nil
}
