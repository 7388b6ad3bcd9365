// Package expand turns a command template and records into argument vectors, or
// into shell scripts in which no value ever becomes syntax.
//
// A template is compiled once, and every error in it is reported then. Compiled
// templates never change and are safe for concurrent use.
//
// No value is written into a script: it is passed beside the script, which refers to it
// (script.go). The script is parsed with mvdan.cc/sh once, to know how a reference is
// quoted where it stands (place.go) and whether a command there evaluates it
// (command.go): then it must be a number, or the script is refused. What the parser
// reads differently from shells is rewritten before (rewrite.go). A script within the
// script is compiled like the outer one, for the shell that will read it (shells.go).
package expand

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

// Template is a compiled command. It is safe for concurrent use.
type Template struct {
	Placeholders
	words   []word   // nil if each record is a command line
	script  *script  // what the words run, which are a shell and its options; nil if they hold all
	shell   []string // the shell and its options, for scripts
	implied bool     // the default shell was not asked for, so people are shown its script alone
	empty   bool     // nothing of the record is inserted
}

// New compiles a template. Its errors say what is wrong and, after a colon, what
// to write instead.
func New(cfg Config) (*Template, error) {
	t, all := &Template{empty: cfg.Insert == Nowhere}, strings.Join(cfg.Words, " ")
	err := cmp.Or(cfg.Validate(), cfg.check(all))
	switch forced := strings.Fields(cfg.Shell); {
	case err != nil:
	case len(cfg.Words) == 0:
		t.useShell(forced)
	case len(forced) > 0:
		t.useShell(forced)
		err = t.compileScript(all, &cfg)
	case len(cfg.Words) == 1:
		pieces := scan(all, &cfg)
		if words, ok := plain(pieces); ok {
			err = t.compileWords(words, &cfg)
		} else {
			t.useShell(nil)
			err = cmp.Or(checkDialect(textOf(pieces, "x")), t.compileScript(all, &cfg))
		}
	default:
		words := make([][]piece, len(cfg.Words))
		for i, w := range cfg.Words {
			words[i] = scan(w, &cfg)
		}
		err = t.compileWords(words, &cfg)
	}
	if err != nil {
		return nil, err
	}
	for _, w := range t.words {
		t.Placeholders = append(t.Placeholders, holesOf(w.pieces)...)
	}
	if t.script != nil {
		t.Placeholders = append(t.Placeholders, holesOf(t.script.values)...)
	}
	return t, nil
}

// useShell sets the shell, and adds -c unless forced ends in such an option.
func (t *Template) useShell(forced []string) {
	if len(forced) == 0 {
		t.shell, t.implied = []string{defaultShell, "-c"}, true
		return
	}
	t.shell = slices.Clip(forced)
	last := forced[len(forced)-1]
	f, at := familyOfCommand(forced)
	complete := len(forced) > at+1 && strings.HasPrefix(last, "-")
	if complete && f != foreign {
		complete = cluster(last, "c") && strings.HasSuffix(last, "c")
	}
	if !complete {
		t.shell = append(t.shell, "-c")
	}
}

// add appends words to the command that are the same for all tasks.
func (t *Template) add(words ...string) {
	for _, w := range words {
		t.words = append(t.words, word{pieces: []piece{{text: w}}})
	}
}

// compileScript makes t run s in its shell.
func (t *Template) compileScript(s string, cfg *Config) error {
	f, at := familyOfCommand(t.shell)
	add := cfg.Insert == AtEnd
	t.add(t.shell...)
	if i := slices.IndexFunc(t.shell[:at], func(w string) bool { return runners[basename(w)].operand > 0 }); i >= 0 {
		return fmt.Errorf("%s joins its arguments to one script, so it cannot start the shell: write %[1]s and the script as the command", t.shell[i])
	}
	pieces := scan(notOption(s), cfg)
	c := newCompiler(f, cfg, false)
	script, err := t.compilePieces(c, pieces, t.shell[at], add)
	if err != nil && c.unread && !slices.ContainsFunc(pieces, piece.ofData) {
		t.words = append(t.words, word{pieces: pieces}) // errors are the shell's to report
		return nil
	}
	if t.script = script; !f.takesValues() {
		t.add(t.beforeArgs()...)
		if add {
			t.words = append(t.words, word{pieces: []piece{appended}})
		}
	}
	return err
}

// compilePieces compiles a script, or appends it as a word if it is given no values.
func (t *Template) compilePieces(c *compiler, pieces []piece, shell string, add bool) (*script, error) {
	if !c.family.takesValues() {
		t.words = append(t.words, word{pieces: pieces})
		return nil, unread(pieces, shell)
	}
	script, err := c.compile(pieces, add)
	if err == nil && len(script.values) == 0 {
		t.add(script.once)
		return nil, nil
	}
	return script, err
}

// beforeArgs returns what has to stand between the shell's script and its arguments: the
// $0 of a script, or "--" where an argument would be taken for an option or for another
// script.
func (t *Template) beforeArgs() []string {
	f, at := familyOfCommand(t.shell)
	switch name := basename(t.shell[at]); {
	case f.takesValues(), f == korn:
		return []string{name}
	case dashed.has(name):
		return []string{"--"}
	}
	return nil
}

// unread returns an error for a script of a program whose quoting is not known, unless only
// numbers and names made by crew stand in it.
func unread(pieces []piece, shell string) error {
	i := slices.IndexFunc(pieces, piece.ofData)
	if i < 0 {
		return nil
	}
	return fmt.Errorf("%s cannot stand in a script for %s, whose quoting crew does not know: "+
		"pass it as an argument, which is $1 in sh and zsh, $argv[1] in fish and sys.argv[1] in python", pieces[i].text, shell)
}

// appended is the placeholder that is added to a command without any.
var appended = piece{text: "{}", kind: record}

// notOption returns a script that no shell takes for an option.
func notOption(script string) string {
	if strings.HasPrefix(script, "-") || strings.HasPrefix(script, "+") {
		return " " + script
	}
	return script
}

// errWhole returns the error for a placeholder that would be the whole of sc.
func errWhole(p piece, sc inline) error {
	return fmt.Errorf("%s would be run by %s, whatever it holds: give no command at all to run each record as a command line, "+
		"or pass it as an argument, as in sh -c '… \"$1\"' sh {}", p.text, sc.shell)
}

// compileWords makes t a command of words. A shell among them may have a script.
func (t *Template) compileWords(words [][]piece, cfg *Config) error {
	args := make([]arg, len(words))
	for i, w := range words {
		args[i].text = textOf(w, markText)
	}
	t.add(asFunction(args[0].text)...)
	sc, found := scriptOf(args, foreign)
	hasHole := func(w []piece) bool { return slices.ContainsFunc(w, piece.isHole) }
	add := sc.shell == "ssh" && cfg.Insert == AtEnd && !slices.ContainsFunc(words, hasHole)
	c := newCompiler(foreign, cfg, false)
	for i := 0; i < len(words); i++ {
		if found && i == sc.from && (add || slices.ContainsFunc(words[i:sc.to], hasHole)) {
			if err := t.compileInline(sc, words[i:sc.to], add, cfg); err != nil {
				return err
			}
			i = sc.to - 1
		} else if err := t.compileWord(words[i], c.argument(args, i)); err != nil {
			return err
		}
	}
	if len(t.words) == 0 {
		return errors.New("nothing is left of the command without the record: name a program")
	}
	varies := func(w word) bool { _, same := w.fixed(); return !same }
	switch {
	case cfg.Insert != AtEnd || slices.ContainsFunc(t.words, varies):
		return nil
	case found && sc.from == len(words):
		return errWhole(appended, sc)
	}
	p := c.argument(append(args, arg{text: markText}), len(args))
	p.single, p.joined = p.joined, false
	return t.compileWord([]piece{appended}, p)
}

// compileWord appends a word that may stand as p says.
func (t *Template) compileWord(pieces []piece, p place) error {
	if at := slices.IndexFunc(pieces, piece.ofData); at >= 0 && p.err != nil {
		return fmt.Errorf("%s %w", pieces[at].text, p.err)
	}
	if n := len(pieces); t.empty {
		pieces, p.guard = slices.DeleteFunc(pieces, piece.ofRecord), 0
		if len(pieces) == 0 && n > 0 {
			return nil
		}
	}
	t.words = append(t.words, word{pieces: pieces, place: p})
	return nil
}

// compileInline appends the script sc, which a shell will read; its words have a placeholder, or
// add is set and the record is appended.
func (t *Template) compileInline(sc inline, words [][]piece, add bool, cfg *Config) error {
	pieces := words[0]
	for _, w := range words[1:] {
		pieces = slices.Concat(pieces, []piece{{text: " "}}, w)
	}
	if sc.attached > 0 {
		t.add(sc.option)
		if pieces[0].text = pieces[0].text[sc.attached:]; pieces[0].text == "" {
			pieces = pieces[1:]
		}
	}
	if sc.family.takesValues() && len(pieces) == 1 && pieces[0].ofData() {
		return errWhole(pieces[0], sc)
	}
	script, err := t.compilePieces(newCompiler(sc.family, cfg, sc.login), pieces, sc.shell, add)
	if script != nil {
		t.words = append(t.words, word{pieces: []piece{{kind: nested, inner: script}}})
	}
	return err
}

// Fill sets tk's command to the one for v, and its Err if v holds a value that cannot
// stand where it belongs, or if the default shell would not understand it. It sets
// tk.NoArgs, too, and appends a mark to tk.Marks for each {%}, {host} and {gpu}.
func (t *Template) Fill(tk *task.Task, v Values) {
	v.nth = v.counted()
	t.fill(tk, &v)
	tk.NoArgs = t.empty
	tk.Marks = append(tk.Marks, v.marks...)
	switch line := tk.Argv[len(tk.Argv)-1]; {
	case v.err != nil, t.words != nil:
		tk.Err = v.err
	case strings.HasSuffix(line, "\r") || strings.Contains(line, "\r\n"):
		tk.Err = errors.New("the command line ends in a carriage return, as on Windows: write -d '\\r\\n', or take it out first")
	case odd(line):
		tk.Err = errors.New("the command line ends in a backslash, and each line is a command: write it on one line")
	case tk.Shell:
		tk.Err = checkDialect(line)
	}
}

func (t *Template) fill(tk *task.Task, v *Values) {
	if t.words == nil {
		tk.Argv, tk.Shell = t.line(v)
		return
	}
	tk.Shell = t.implied
	argv := make([]string, 0, len(t.words)+len(v.Records))
	for i := range t.words {
		argv = t.words[i].appendTo(argv, v)
	}
	if t.script != nil {
		f := t.script.fill(v)
		_, at := familyOfCommand(argv)
		tk.Exec = slices.Concat(argv, f.exec(argv[at]))
		argv = append(argv, f.shown())
	}
	for i, w := range tk.Exec {
		tk.Exec[i] = v.seal(w, task.InExec-i)
	}
	for i, w := range argv {
		argv[i] = v.seal(w, i)
	}
	tk.Argv = argv
}

// line returns the command where each record is a command line. Several records
// are the lines of one script.
func (t *Template) line(v *Values) (argv []string, shell bool) {
	text := join(v.Records, "\n", func(rec []string) string { return strings.Join(rec, " ") })
	if t.implied {
		if words, ok := fields(text); ok {
			return append(asFunction(words[0]), words...), false
		}
	}
	return append(slices.Clone(t.shell), notOption(text)), t.implied
}

// Script returns the command that runs a script with args as its arguments. The
// template has no command. A script that is a plain command line gets args as its
// last words; any other has to mention them, as with "$@".
func (t *Template) Script(script string, args []string) (argv []string, shell bool, err error) {
	argv, shell = t.line(&Values{Records: [][]string{{script}}})
	if shell {
		if err := checkDialect(script); err != nil {
			return nil, false, err
		}
	}
	f, _ := familyOfCommand(t.shell)
	switch {
	case len(args) == 0:
		return argv, shell, nil
	case t.implied && !shell: // a plain command line
	case f.takesValues() && !strings.Contains(script, "$"):
		return nil, false, errors.New(`the script does not mention its arguments: write "$@" where they go`)
	default:
		argv = append(argv, t.beforeArgs()...)
	}
	return append(argv, args...), false, nil
}

// Holds reports whether the template holds a placeholder for the file of Config.Outs.
func (t *Template) Holds(out *Text) bool {
	return t.any(func(p piece) bool { return p.kind == made && p.made == out })
}

// Counts reports whether the template holds {N}, which stands for the Nth record
// of several that have one column each.
func (t *Template) Counts() bool { return t.any(func(p piece) bool { return p.kind == column }) }

// Command returns the program that every task runs. ok is false if it varies by
// task.
func (t *Template) Command() (program string, ok bool) {
	if t.words == nil {
		return t.shell[0], !t.implied
	}
	return t.words[0].fixed()
}
