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

	"crew/runner/expand"
	"crew/runner/task"
)

// Object is a JSON object that describes a task.
type Object struct {
	Args    []string          // never nil
	Command []string          // words, or one string; nil if missing
	Key     *string           // nil if missing
	Cost    *string           // the number as written; nil if missing
	Env     []string          // "NAME=value", sorted
	Dir     string            // "" if missing
	Stdin   []byte            // nil if missing, but not if it is ""
	Timeout time.Duration     // 0 if missing, negative for no limit
	Fields  map[string]string // all other fields except arrays and objects; null is ""
	Empty   bool              // there are only args, and they hold no byte, as in an empty line
}

var known = []string{"args", "command", "key", "cost", "env", "dir", "stdin", "timeout"}

// parseObject reads one JSON object. A known field that is null counts as missing.
// Of two fields with one name, the last counts.
func parseObject(text string) (*Object, error) {
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return nil, errors.New("not a JSON object")
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	o := &Object{Args: []string{}}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if string(raw[name]) == "null" && slices.Contains(known, name) {
			delete(raw, name)
		} else if err := o.set(name, raw[name]); err != nil {
			return nil, fmt.Errorf("%q %w", name, err)
		}
	}
	delete(raw, "args")
	o.Empty = len(raw) == 0 && (len(o.Args) == 0 || len(o.Args) == 1 && o.Args[0] == "")
	return o, nil
}

// set sets one field. Its error goes on from the name of the field.
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
		if o.Dir, err = text(v); err == nil && o.Dir == "" {
			err = errEmpty
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

func some(s string, err error) (*string, error) { return &s, err }

var (
	errEmpty  = errors.New("is empty")
	errScalar = errors.New("is not a string, a number, true or false")
)

// text returns the value of a JSON string.
func text(v json.RawMessage) (string, error) {
	if v[0] != '"' {
		return "", errors.New("is not a string")
	}
	var s string
	err := json.Unmarshal(v, &s)
	return s, err
}

// scalar returns the value of a JSON string, the text of a number, true or false,
// and "" for null.
func scalar(v json.RawMessage) (string, error) {
	switch v[0] {
	case '"':
		return text(v)
	case '[', '{':
		return "", errScalar
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
		var err error
		if list[i], err = scalar(e); err != nil || string(e) == "null" {
			return nil, fmt.Errorf("[%d] %w", i, errScalar)
		}
	}
	return list, nil
}

func command(v json.RawMessage) (words []string, err error) {
	switch v[0] {
	case '"':
		words = make([]string, 1)
		words[0], err = text(v)
	case '[':
		words, err = scalars(v)
	default:
		return nil, errors.New("is not a string and not an array of words")
	}
	if err == nil && (len(words) == 0 || words[0] == "" || v[0] == '"' && strings.TrimSpace(words[0]) == "") {
		err = errEmpty
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

// timeout reads a duration as in package time, or a number of seconds. It returns
// -1 for 0, which stands for no limit.
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
		d = -1
		if ns := math.Ceil(seconds * float64(time.Second)); seconds >= 0 && ns < math.MaxInt64 {
			d = time.Duration(ns)
		}
	}
	switch {
	case d < 0:
		return 0, fmt.Errorf("is not a time that can be waited for: %s", v)
	case d == 0:
		return -1, nil
	}
	return d, nil
}

// object returns the task of a JSON object. The object takes precedence over the
// command line.
func (t *Tasks) object(rec *Record, id uint64) *task.Task {
	o := rec.Object
	tk := &task.Task{
		ID:      id,
		Records: [][]string{o.Args}, Object: strings.TrimSpace(rec.Text),
		Env: o.Env, Dir: o.Dir, Stdin: o.Stdin, Timeout: o.Timeout,
	}
	if t.cfg.Stdin && tk.Stdin == nil {
		tk.Stdin = t.appendInput(nil, rec)
	}
	v := expand.Values{Records: tk.Records, Fields: o.Fields}
	t.fill(tk, &v)
	if o.Key != nil {
		tk.Key = *o.Key
	}
	if o.Cost != nil {
		tk.Cost, tk.Err = parseCost(*o.Cost)
	}
	if tk.Err != nil {
		return tk
	}
	tmpl := t.cfg.Template
	if o.Command != nil {
		var err error
		if tmpl, err = t.compile(o.Command); err != nil {
			tk.Err = fmt.Errorf("%q: %w", "command", err)
			return tk
		}
	}
	switch {
	case tmpl != nil:
		t.expand(tk, tmpl, v)
	case len(o.Args) == 0 || o.Args[0] == "":
		tk.Err = errors.New(`no command: neither the command line nor "command" nor "args" has one`)
	default:
		if tk.Err = t.fits(o.Args, tk); tk.Err == nil {
			tk.Argv = o.Args
		}
	}
	return tk
}

const maxCompiled = 64

// compile returns the template of a command, and keeps it for the next object with
// the same command.
func (t *Tasks) compile(words []string) (*expand.Template, error) {
	key := fmt.Sprintf("%q", words)
	if tmpl := t.compiled[key]; tmpl != nil {
		return tmpl, nil
	}
	cfg := t.cfg.Command
	cfg.Words, cfg.Fields = words, true
	tmpl, err := expand.New(cfg)
	if err != nil {
		return nil, err
	}
	if t.compiled == nil || len(t.compiled) >= maxCompiled {
		t.compiled = make(map[string]*expand.Template)
	}
	t.compiled[key] = tmpl
	return tmpl, nil
}
