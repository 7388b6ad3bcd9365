package cli

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"crew/runner/decide/task"
)

// option describes an option. It is parsed from the tag of a field of Options. The tag's row has four parts,
// separated by " | ": form, commands, text and values. A field called _ stands for an option that sets the
// field named by the tag's to or, without to, for an abbreviation. The parser, --help and the completion use
// options, and a test compares the man pages with them.
type option struct {
	form     string            // names and value, as --help shows them, or a heading
	commands string            // commands that take it, such as run, ctl-add, or ctl for all its verbs; "" for a heading
	text     string            // description in --help
	values   string            // range LOW..HIGH, choices, or any; for an option without a value, the value to set
	field    string            // path of the field that it sets
	tag      reflect.StructTag // its by, a key in parsers; without it, set parses by the type of the field

	name    string // long name, without dashes; "" for a heading
	short   string // letters of the short names
	value   string // name of the value; "" if the option takes none
	choices string // possible values, if they are a closed set
	alone   bool   // the value can be missing, or must be attached
	implied string // value if none is attached
	means   string // name=value that this option abbreviates; "" for none
}

// tagged is a field of Options whose tag describes an option or has a heading.
type tagged struct {
	name, path string // path is that of its struct
	tag        reflect.StructTag
}

// taggedFields returns all of them, in the order of --help.
var taggedFields = sync.OnceValue(func() []tagged { return appendTagged(make([]tagged, 0, 256), reflect.TypeFor[Options](), "") })

func appendTagged(all []tagged, t reflect.Type, path string) []tagged {
	for f := range t.Fields() {
		option := strings.HasPrefix(string(f.Tag), "row:")
		if option || strings.HasPrefix(string(f.Tag), "heading:") {
			all = append(all, tagged{f.Name, path, f.Tag})
		}
		if f.Type.Kind() == reflect.Struct && !option && f.Type.PkgPath() == t.PkgPath() {
			all = appendTagged(all, f.Type, path+f.Name+".")
		}
	}
	return all
}

// options returns the table of options, in the order of --help. A run does not ask for it: to parse all tags
// takes 3 % of the time of a run of one task.
func options() (all []*option) {
	for _, f := range taggedFields() {
		all = append(all, f.parse())
	}
	return all
}

// parse returns the option, or the heading, of the field.
func (f tagged) parse() *option {
	if heading, found := f.tag.Lookup("heading"); found {
		return &option{form: heading}
	}
	part := strings.SplitN(f.tag.Get("row"), " | ", 4)
	o := &option{form: part[0], commands: cmp.Or(commandSets[part[1]], part[1]), text: part[2], values: strings.Join(part[3:], ""), field: f.path + f.name, tag: f.tag}
	letters, rest, _ := strings.Cut(o.form, "--")
	name, value, alone := strings.Cut(rest, "[=")
	if !alone {
		name, value, _ = strings.Cut(rest, " ")
	}
	o.name, o.value = name, strings.TrimSuffix(value, "]")
	for ; strings.HasPrefix(letters, "-"); letters = letters[len("-x, "):] {
		o.short += letters[1:2]
	}
	if strings.Contains(o.values, " ") {
		o.choices = o.values
	}
	if o.alone = alone; alone && o.values != "any" {
		o.implied, _, _ = strings.Cut(strings.Replace(o.values, "..", " ", 1), " ")
	}
	if f.name != "_" {
		return o
	}
	if o.field = f.tag.Get("to"); o.field == "" {
		o.means = o.values
	}
	return o
}

// commandSets maps words in rows to the commands that they stand for.
var commandSets = map[string]string{
	"runs":       "run serve",
	"detachable": "run serve detached",
	"all":        "run serve worker",
	"shown":      "run serve engine-attach",
	"everywhere": "run serve worker engine-attach",
	"named": "ctl-status ctl-log ctl-explain ctl-wait ctl-watch ctl-top ctl-pause ctl-resume ctl-resize ctl-cancel ctl-signal ctl-send " +
		"ctl-retry ctl-hold ctl-release ctl-move ctl-drain ctl-stop ctl-add",
	"linked": "engine-invite engine-revoke engine-status engine-cancel engine-drain engine-attach",
}

// set sets the field of an option to a value.
func (o *Options) set(p *option, value string) (err error) {
	to := reflect.ValueOf(o).Elem()
	for name := range strings.SplitSeq(p.field, ".") {
		to = to.FieldByName(name)
	}
	if p.value == "" {
		value = p.values
	}
	if parse := reflect.ValueOf(parsers[p.tag.Get("by")]); parse.IsValid() {
		args := []reflect.Value{reflect.ValueOf(value), to}
		out := parse.Call(args[:parse.Type().NumIn()])
		if out[0].Type() != to.Type() {
			out[0] = reflect.Append(to, out[0])
		}
		to.Set(out[0])
		err, _ = out[1].Interface().(error)
		return err
	}
	low, high, _ := strings.Cut(p.values, "..")
	if to.Kind() == reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	switch to.Kind() {
	case reflect.Bool:
		to.SetBool(strings.HasSuffix(p.choices, value))
	case reflect.String:
		if to.SetString(value); p.values == "" {
			err = checkText(value)
		}
	case reflect.Slice:
		to.Set(reflect.Append(to, reflect.ValueOf(value)))
		err = checkText(value)
	case reflect.Uint8: // numbers from 1, in the order of the choices
		to.SetUint(uint64(1 + slices.Index(strings.Fields(p.choices), value)))
	case reflect.Int:
		least, _ := strconv.Atoi(low)
		most, _ := strconv.Atoi(cmp.Or(high, strconv.Itoa(math.MaxInt)))
		n, bad := parseWhole(value, least, most)
		to.SetInt(int64(n))
		return bad
	case reflect.Int64:
		least, _ := task.ParseDuration(low)
		d, bad := task.ParseDuration(value)
		if to.SetInt(int64(d)); bad == nil && d < least {
			bad = fmt.Errorf("write a time of at least %v", least)
		}
		return bad
	}
	return err
}

// ofRuns reports whether a command that runs tasks takes the option.
func (o *option) ofRuns() bool {
	return hasWord(o.commands, DoRun) || hasWord(o.commands, DoServe) || hasWord(o.commands, DoWork)
}

// use is one occurrence of an option.
type use struct {
	opt     *option
	spelled string // as typed, for messages
	value   string // "" if the option takes none
	env     bool   // from CREW_OPTS
}

// word returns the option as one word: --name or --name=value.
func (u use) word() string {
	if u.opt.value == "" || u.opt.alone && u.value == u.opt.implied {
		return "--" + u.opt.name
	}
	return "--" + u.opt.name + "=" + u.value
}

// String returns the option as typed, and says so if it comes from CREW_OPTS.
func (u use) String() string {
	if u.env {
		return u.spelled + " (from CREW_OPTS)"
	}
	return u.spelled
}

// withChoice is like String, with the value if it is one of a closed set.
func (u use) withChoice() string {
	switch {
	case u.opt.alone && u.value != u.opt.implied:
		u.spelled += "=" + u.value
	case u.opt.choices != "" && !u.opt.alone && u.spelled == "--"+u.opt.name:
		u.spelled += " " + u.value
	}
	return u.String()
}

func missingValue(u use) error {
	return &UsageError{u.spelled + " needs a value", "write " + u.spelled + " " + u.opt.value}
}

// bad returns the error for a wrong value, with err as the hint.
func (u use) bad(err error) error {
	return &UsageError{fmt.Sprintf("bad value %q for %s", u.value, u), err.Error()}
}

// typed returns the shortest form of the option's name.
func (o *option) typed() string {
	if o.short != "" {
		return "-" + o.short[:1]
	}
	return "--" + o.name
}

// given returns the last use of an option, or nil if it was not given.
func (o *Options) given(name string) *use {
	for i := len(o.uses) - 1; i >= 0; i-- {
		if o.uses[i].opt.name == name {
			return &o.uses[i]
		}
	}
	return nil
}

// Any reports whether one of the options in names, which are separated by blanks, was given.
func (o *Options) Any(names string) bool {
	return slices.ContainsFunc(o.uses, func(u use) bool { return hasWord(names, u.opt.name) })
}

// Typed returns an option as it was typed, or "" if it was not given.
func (o *Options) Typed(name string) string {
	if u := o.given(name); u != nil {
		return u.String()
	}
	return ""
}

// OtherFile returns what else than option uses a file that satisfies same: another option, or the input; or "".
// A joblog may replace any file but those of the input.
func (o *Options) OtherFile(option string, same func(file string) bool) string {
	if slices.ContainsFunc(o.Input.Paths(), same) {
		return "the input"
	}
	for _, u := range o.uses {
		file := u.value
		if u.opt.name == "joblog" {
			file = strings.TrimPrefix(file, "+")
		}
		if typed := u.opt.typed(); typed != option && option != "--joblog" && hasWord("times joblog lock junit report trace", u.opt.name) && same(file) {
			return typed
		}
	}
	return ""
}

// Bad returns the error for the wrong value of an option that was given, with err as the hint.
func (o *Options) Bad(name string, err error) error { return o.given(name).bad(err) }

// command is a row of the command table. The parser, the help and the completion use it, and a test compares
// the man pages with it.
type command struct {
	name     string // all its words: "ctl log"
	operands string // as the help shows them; one of the takes constants
	text     string // description in the help
}

// UsageError is a mistake in a command line, found before anything ran.
type UsageError struct {
	Msg  string // what is wrong
	Hint string // what to write instead; can be ""
}

// Error returns the message and the hint on one line.
func (e *UsageError) Error() string {
	if e.Hint == "" {
		return e.Msg
	}
	return e.Msg + ": " + e.Hint
}
