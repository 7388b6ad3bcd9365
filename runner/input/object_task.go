package input

import (
	"errors"
	"fmt"
	"strings"

	"crew/runner/expand"
	"crew/runner/task"
)

// object is the task of a JSON object. What the object says goes before what
// the command line says.
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
	if tmpl != nil {
		t.expand(tk, tmpl, v)
		return tk
	}
	if len(o.Args) == 0 || o.Args[0] == "" {
		tk.Err = errors.New(`no command: neither the command line nor "command" nor "args" has one`)
		return tk
	}
	if tk.Err = t.fits(o.Args, tk); tk.Err == nil {
		tk.Argv = o.Args
	}
	return tk
}

const maxCompiled = 64

// compile returns the template of a command, which it keeps for the next object
// that has it.
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
