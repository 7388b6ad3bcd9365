package input

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"crew/runner/expand"
	"crew/runner/task"
)

// description is a JSON object that describes a task.
type description struct {
	Command []string      // words, or one string for a shell; nil if missing
	Script  bool          // Command is a string
	Args    []string      // never nil
	Key     *string       // nil if missing
	Cost    *string       // the number as written; nil if missing
	Env     []string      // "NAME=value", sorted
	Dir     string        // "" if missing
	Stdin   []byte        // nil if missing, but not if it is ""
	Timeout time.Duration // 0 if missing, negative for no limit
}

// known are the members of a description.
var known = []string{"args", "command", "cost", "dir", "env", "key", "stdin", "timeout"}

// describe reads a description. A member that is null counts as missing.
func describe(obj Object) (*description, error) {
	d := &description{Args: []string{}}
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		if !slices.Contains(known, name) {
			hint := didYouMean(name, known)
			if hint == "" {
				hint = ": it has " + strings.Join(known, ", ")
			}
			return nil, fmt.Errorf("%q is no member of a task%s", name, hint)
		}
		if string(obj[name]) == "null" {
			continue
		}
		if err := d.set(name, obj[name]); err != nil {
			return nil, fmt.Errorf("%q %w", name, err)
		}
	}
	if d.Command == nil && (len(d.Args) == 0 || d.Args[0] == "") {
		return nil, errors.New(`no command: neither the command line nor "command" nor "args" has one`)
	}
	return d, nil
}

// set sets one member. Its error goes on from the name of the member.
func (d *description) set(name string, v json.RawMessage) (err error) {
	switch name {
	case "args":
		d.Args, err = scalars(v)
	case "command":
		d.Script = v[0] == '"'
		d.Command, err = command(v)
	case "key":
		d.Key, err = some(scalar(v))
	case "cost":
		d.Cost, err = some(scalar(v))
	case "env":
		d.Env, err = environment(v)
	case "dir":
		if d.Dir, err = text(v); err == nil && d.Dir == "" {
			err = errEmpty
		}
	case "stdin":
		var s string
		s, err = text(v)
		d.Stdin = []byte(s)
	case "timeout":
		d.Timeout, err = timeout(v)
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

// scalar returns the value of a JSON string, or the text of a number, true or
// false.
func scalar(v json.RawMessage) (string, error) {
	switch v[0] {
	case '[', '{', 'n':
		return "", errScalar
	}
	return plainText(v)
}

func scalars(v json.RawMessage) ([]string, error) {
	var raw []json.RawMessage
	if json.Unmarshal(v, &raw) != nil {
		return nil, errors.New("is not an array")
	}
	list := make([]string, len(raw))
	for i, e := range raw {
		var err error
		if list[i], err = scalar(e); err != nil {
			return nil, fmt.Errorf("[%d] %w", i, err)
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
	raw, err := parseObject(string(v))
	if err != nil {
		return nil, fmt.Errorf("is not an object of strings: %w", err)
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

// timeout reads a number of seconds, or a string as of --timeout. It returns -1 for 0,
// which stands for no limit.
func timeout(v json.RawMessage) (time.Duration, error) {
	s, err := text(v)
	if err != nil {
		var seconds float64
		if json.Unmarshal(v, &seconds) != nil {
			return 0, errors.New("is not a string and not a number of seconds")
		}
		s = strconv.FormatFloat(seconds, 'f', -1, 64)
	}
	d, err := task.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("is %s: %w", v, err)
	case d == 0:
		return -1, nil
	}
	return d, nil
}

// described returns the task that a JSON object describes. The object takes
// precedence over the command line.
func (t *Tasks) described(rec *Record, id uint64) *task.Task {
	d, err := describe(rec.Object)
	if err != nil {
		bad := *rec
		bad.Err = t.r.at(err)
		return t.of([]Record{bad}, id)
	}
	tk := &task.Task{
		ID: id, Records: [][]string{d.Args}, Object: rec.Text, Env: d.Env, Dir: d.Dir, Stdin: d.Stdin, Timeout: d.Timeout,
	}
	v := expand.Values{Records: tk.Records}
	t.fill(tk, &v, rec.Object)
	if d.Key != nil {
		tk.Key = *d.Key
	}
	if d.Cost != nil {
		tk.Cost, err = parseCost(*d.Cost)
		tk.Err = cmp.Or(tk.Err, err)
	}
	switch {
	case tk.Err != nil:
		return tk
	case d.Script:
		tk.Argv, tk.Shell, tk.Err = t.cfg.Template.Script(d.Command[0], d.Args)
	default:
		tk.Argv = slices.Concat(d.Command, d.Args)
	}
	t.bound(tk)
	return tk
}
