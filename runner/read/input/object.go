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

	"crew/runner/decide/task"
	"crew/runner/read/expand"
)

// description is a JSON object that describes a task.
type description struct {
	task.Task          // the fields that members set; a Timeout of -1 means no limit
	Command   []string // words, or one string for a shell; nil if missing
	Script    bool     // Command is one string for a shell
	Args      []string // never nil
	Name      string   // "" if missing
	After     []string // names of tasks that must succeed first; nil if missing
	AfterAny  []string // names of tasks that must end first; nil if missing
	Unique    *string  // see task.Terms.UniqueBy
	Texts     rawTexts
}

// members are the names of all members that a description can have.
var members = []string{
	"after", "after_any", "args", "command", "cost", "dir", "env", "id", "key", "needs", "priority", "stdin", "timeout", "unique", "weight",
}

// parseDescription parses a description. It ignores members that are null. On error it still returns the
// name, if that is valid, because later records may refer to it.
func parseDescription(obj Object) (*description, error) {
	d := &description{Args: []string{}}
	var err error
	for _, name := range slices.Sorted(maps.Keys(obj)) {
		if err == nil || name == "id" {
			err = cmp.Or(err, d.setMember(name, obj[name]))
		}
	}
	if err == nil && d.Command == nil && (len(d.Args) == 0 || d.Args[0] == "") {
		err = errors.New(`no command: neither the command line nor "command" nor "args" has one`)
	}
	if err != nil {
		return &description{Name: d.Name}, err
	}
	return d, nil
}

// setMember sets the member called name unless v is null.
func (d *description) setMember(name string, v json.RawMessage) error {
	if !slices.Contains(members, name) {
		return fmt.Errorf("%q is not a member of a task: it has %s", name, strings.Join(members, ", "))
	}
	if string(v) == "null" {
		return nil
	}
	if err := d.set(name, v); err != nil {
		return fmt.Errorf("%q %w", name, err)
	}
	return nil
}

// set sets one member. Its error continues the name of the member.
func (d *description) set(name string, v json.RawMessage) (err error) {
	switch name {
	case "args":
		d.Args, err = parseScalars(v)
	case "command":
		d.Script = v[0] == '"'
		d.Command, err = parseList(parseString, v)
		if err == nil && (len(d.Command) == 0 || d.Command[0] == "" || d.Script && strings.TrimSpace(d.Command[0]) == "") {
			err = errEmpty
		}
	case "needs":
		var list []string
		list, err = parseList(parseString, v)
		d.Texts[4] = new(strings.Join(list, ","))
	case "env":
		d.Env, err = parseEnvironment(v)
	case "dir":
		if d.Dir, err = parseString(v); err == nil && d.Dir == "" {
			err = errEmpty
		}
	case "stdin":
		var s string
		s, err = parseString(v)
		d.Stdin = []byte(s)
	case "timeout":
		d.Timeout, err = parseTimeout(v)
	case "id":
		d.Name, err = parseScalar(v)
		if err == nil && d.Name == "" {
			err = errEmpty
		}
	case "unique":
		switch string(v) {
		case "false":
		case "true":
			d.Unique = new(string)
		default:
			var key string
			if key, err = parseString(v); err == nil && key == "" {
				err = errEmpty
			}
			d.Unique = &key
		}
	case "after", "after_any":
		list := &d.After
		if name == "after_any" {
			list = &d.AfterAny
		}
		*list, err = parseList(parseScalar, v)
		if err == nil && slices.Contains(*list, "") {
			err = errors.New("has an empty id")
		}
	default:
		var s string
		s, err = parseScalar(v)
		d.Texts[slices.Index(TermNames[:], name)] = &s
	}
	return err
}

var (
	errEmpty  = errors.New("is empty")
	errScalar = errors.New("is not a string, a number, true or false")
)

// parseString returns the value of a JSON string.
func parseString(v json.RawMessage) (string, error) {
	if v[0] != '"' {
		return "", errors.New("is not a string")
	}
	var s string
	err := json.Unmarshal(v, &s)
	return s, err
}

// parseScalar returns the value of a JSON string, or the text of a number, true or false.
func parseScalar(v json.RawMessage) (string, error) {
	switch v[0] {
	case '[', '{', 'n':
		return "", errScalar
	}
	return plainText(v)
}

func parseScalars(v json.RawMessage) ([]string, error) {
	var raw []json.RawMessage
	if json.Unmarshal(v, &raw) != nil {
		return nil, errors.New("is not an array")
	}
	list := make([]string, len(raw))
	for i, e := range raw {
		var err error
		if list[i], err = parseScalar(e); err != nil {
			return nil, fmt.Errorf("[%d] %w", i, err)
		}
	}
	return list, nil
}

// parseList parses an array of scalars, or a single value by calling one.
func parseList(one func(json.RawMessage) (string, error), v json.RawMessage) ([]string, error) {
	if v[0] == '[' {
		return parseScalars(v)
	}
	s, err := one(v)
	if err != nil {
		return nil, fmt.Errorf("%w and not an array", err)
	}
	return []string{s}, nil
}

func parseEnvironment(v json.RawMessage) ([]string, error) {
	raw, err := parseObject(string(v))
	if err != nil {
		return nil, fmt.Errorf("is not an object of strings: %w", err)
	}
	list := make([]string, 0, len(raw))
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		s, err := parseString(raw[name])
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

// parseTimeout parses a number of seconds, or a string as --timeout takes it. It returns -1 for 0, which
// means no limit.
func parseTimeout(v json.RawMessage) (time.Duration, error) {
	s, err := parseString(v)
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

// describedTask returns the task that a JSON object describes. The object takes precedence over
// the command line.
func (t *Tasks) describedTask(rec *Record, id uint64) *task.Task {
	d, err := parseDescription(rec.Object)
	asked, wrong := t.termsOf(d, id)
	if err = cmp.Or(err, wrong); err != nil {
		bad := *rec
		bad.Err = t.r.errorAt(err)
		tk := t.newTask([]Record{bad}, id)
		tk.Asked = asked
		return tk
	}
	tk := new(d.Task) // a copy, so that the rest of the description can be freed
	tk.ID, tk.Records, tk.Object, tk.Asked = id, [][]string{d.Args}, rec.Text, asked
	v := expand.Values{Records: tk.Records}
	t.fillTexts(tk, &v, rec.Object, d.Texts)
	return t.setCommand(tk, d.Command, d.Script, d.Args)
}

// termsOf registers the name of the task with this number, and returns its Terms, or nil if they are
// empty. On error they hold only the name, if it could be registered. If number is 0, it does
// nothing.
func (t *Tasks) termsOf(d *description, number uint64) (*task.Terms, error) {
	if number == 0 {
		return nil, nil
	}
	if d.Name != "" {
		if first := t.names[d.Name]; first != 0 {
			return nil, fmt.Errorf(`"id" %q is already the id of task %d`, d.Name, first)
		}
		t.names[d.Name] = number
	}
	after, err := t.numbersOf("after", d.After, number)
	ended, err2 := t.numbersOf("after_any", d.AfterAny, number)
	err = cmp.Or(err, err2)
	if d.Unique != nil && !t.cfg.Fed {
		err = errors.New(`"unique" is for tasks that are added to a crew serve`)
	}
	if d.Name == "" && after == nil && ended == nil && d.Unique == nil {
		return nil, err
	}
	return &task.Terms{After: after, AfterAny: ended, Name: task.Bytes(d.Name), UniqueBy: d.Unique}, err
}

// Names are the numbers of tasks by the names that users give them.
type Names map[string]uint64

// RemoveAfter removes the names of all tasks with numbers above last. It takes time for each name.
func (n Names) RemoveAfter(last uint64) {
	maps.DeleteFunc(n, func(_ string, number uint64) bool { return number > last })
}

// numbersOf returns the numbers of the tasks whose ids a member lists, sorted and without duplicates.
// It returns an error if an id is unknown, or is the id of the task itself, which has this number.
func (t *Tasks) numbersOf(member string, ids []string, number uint64) (list []uint64, err error) {
	for _, id := range ids {
		switch n := t.names[id]; n {
		case 0:
			return nil, fmt.Errorf("%q: no earlier record has the id %q", member, id)
		case number:
			return nil, fmt.Errorf("%q: the record itself has the id %q", member, id)
		default:
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}
