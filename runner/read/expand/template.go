// Package expand turns a command template and records into argument vectors or shell scripts.
// No value ever becomes syntax of a script.
//
// A template is compiled once, and compiling reports all its errors. Compiled templates never
// change and are safe for concurrent use.
//
// Values are not written into scripts. They are passed as arguments, and the script refers to
// them (script.go). For example, 'echo "{}"' runs as
//
//	/bin/sh -c '_crew1=${1}; shift 1; echo "${_crew1?}"' /bin/sh VALUE
//
// The script is parsed once with mvdan.cc/sh, to find out how a reference must
// be quoted (place.go), and whether a command evaluates its value (command.go): the value must
// then be a number, or the script is refused. Syntax that the parser reads differently from
// shells is rewritten first (rewrite.go). A script within the script is compiled in the same
// way, for the shell that will read it (shells.go).
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
	words    []word   // nil if each record is a command line
	script   *script  // run by the words, which are a shell and its options; may be nil
	shell    []string // the shell and its options, for scripts
	implied  bool     // the shell is the default, so only its script is displayed
	noRecord bool     // nothing of the record is inserted
}

// New compiles a template. Its errors say what is wrong and, after a colon, what to write instead.
func New(cfg Config) (*Template, error) {
	t, all := &Template{noRecord: cfg.Insert == Nowhere}, strings.Join(cfg.Words, " ")
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
		if words, ok := plainPieces(pieces); ok {
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
		t.Placeholders = append(t.Placeholders, placeholdersOf(w.pieces)...)
	}
	if t.script != nil {
		t.Placeholders = append(t.Placeholders, placeholdersOf(t.script.values)...)
	}
	return t, nil
}

// useShell sets the shell. It adds -c unless forced ends in that option.
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
		complete = arg{text: last}.isShortOptions() && strings.HasSuffix(last, "c")
	}
	if !complete {
		t.shell = append(t.shell, "-c")
	}
}

// addFixed appends words that are the same for all tasks.
func (t *Template) addFixed(words ...string) {
	for _, w := range words {
		t.words = append(t.words, word{pieces: []piece{{text: w}}})
	}
}

// compileScript makes t a command that runs s in its shell.
func (t *Template) compileScript(s string, cfg *Config) error {
	f, at := familyOfCommand(t.shell)
	add := cfg.Insert == AtEnd
	t.addFixed(t.shell...)
	if i := slices.IndexFunc(t.shell[:at], func(w string) bool { return runners[basename(w)].operand > 0 }); i >= 0 {
		return fmt.Errorf("%s joins its arguments to one string, so --shell cannot use it: write %[1]s and the script as the command", t.shell[i])
	}
	pieces := scan(notOption(s), cfg)
	script, err := t.compilePieces(newCompiler(f, cfg, false), pieces, t.shell[at], add)
	if t.script = script; !f.takesValues() {
		t.addFixed(t.beforeArgs()...)
		if add {
			t.words = append(t.words, word{pieces: []piece{appended}})
		}
	}
	return err
}

// compilePieces compiles a script. It appends the script as a word if it has no values.
func (t *Template) compilePieces(c *compiler, pieces []piece, shell string, add bool) (*script, error) {
	if !c.family.takesValues() {
		t.words = append(t.words, word{pieces: pieces})
		return nil, errUnknownQuoting(pieces, shell)
	}
	script, err := c.compile(pieces, add)
	if err == nil && len(script.values) == 0 {
		t.addFixed(script.fill(&Values{}).body(""))
		return nil, nil
	}
	return script, err
}

// beforeArgs returns the words between the shell's script and its arguments: the $0 of the
// script, or "--" for a program that would read an argument as an option or as another script.
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

// errUnknownQuoting returns an error if pieces, a script of a program with quoting rules that crew does not
// know, hold a placeholder for anything except numbers and names made by crew.
func errUnknownQuoting(pieces []piece, shell string) error {
	i := slices.IndexFunc(pieces, piece.ofData)
	if i < 0 {
		return nil
	}
	return fmt.Errorf("%s cannot stand in a script for %s, whose quoting crew does not know: "+
		"pass it as an argument, which is $1 in sh and zsh, $argv[1] in fish and sys.argv[1] in python", pieces[i].text, shell)
}

// appended is the placeholder that is added to a command without placeholders.
var appended = piece{text: "{}", kind: record}

// notOption returns script in a form that no shell reads as an option.
func notOption(script string) string {
	if startsOption(script) {
		return " " + script
	}
	return script
}

// errWhole returns the error for a placeholder that is all of the script sc.
func errWhole(p piece, sc inline) error {
	return fmt.Errorf("%s would be run by %s, whatever it holds: give no command at all to run each record as a command line, "+
		"or pass it as an argument, as in sh -c '… \"$1\"' sh {}", p.text, sc.shell)
}

// compileWords makes t a command of separate words. One of them may start a shell with a script.
func (t *Template) compileWords(words [][]piece, cfg *Config) error {
	args := make([]arg, len(words))
	for i, w := range words {
		args[i].text = textOf(w, markText)
	}
	t.addFixed(asFunction(args[0].text)...)
	sc, _ := scriptOf(args, foreign)
	hasHole := func(w []piece) bool { return slices.ContainsFunc(w, piece.isPlaceholder) }
	add := sc.shell == "ssh" && cfg.Insert == AtEnd && !slices.ContainsFunc(words, hasHole)
	c := newCompiler(foreign, cfg, false)
	for i := 0; i < len(words); i++ {
		if i == sc.from && (add || slices.ContainsFunc(words[i:sc.to], hasHole)) {
			if err := t.compileInline(sc, words[i:sc.to], add, cfg); err != nil {
				return err
			}
			i = sc.to - 1
		} else if err := t.compileWord(words[i], c.argumentPlace(args, i)); err != nil {
			return err
		}
	}
	if len(t.words) == 0 {
		return errors.New("nothing is left of the command without the record: name a program")
	}
	switch {
	case cfg.Insert != AtEnd || slices.ContainsFunc(t.words, func(w word) bool { return hasHole(w.pieces) }):
		return nil
	case sc.from == len(words):
		return errWhole(appended, sc)
	}
	p := c.argumentPlace(append(args, arg{text: markText}), len(args))
	p.single, p.joined = p.joined, false
	return t.compileWord([]piece{appended}, p)
}

// compileWord appends a word at place p.
func (t *Template) compileWord(pieces []piece, p place) error {
	if at := slices.IndexFunc(pieces, piece.ofData); at >= 0 && p.err != nil {
		return fmt.Errorf("%s %w", pieces[at].text, p.err)
	}
	if n := len(pieces); t.noRecord {
		pieces, p.guard = slices.DeleteFunc(pieces, piece.ofRecord), 0
		if len(pieces) == 0 && n > 0 {
			return nil
		}
	}
	t.words = append(t.words, word{pieces: pieces, place: p})
	return nil
}

// compileInline appends the script sc, made of words. Its words have a placeholder, or add is set
// and the record is appended.
func (t *Template) compileInline(sc inline, words [][]piece, add bool, cfg *Config) error {
	pieces := words[0]
	for _, w := range words[1:] {
		pieces = slices.Concat(pieces, []piece{{text: " "}}, w)
	}
	if sc.attached > 0 {
		t.addFixed(sc.option)
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

// Fill sets tk.Argv, tk.Exec, tk.Shell and tk.NoArgs to the command for v. It sets tk.Err if a
// value cannot stand in the command, or if the default shell would not understand it. It
// appends a mark to tk.Marks for each {%}, {host} and {gpu}.
func (t *Template) Fill(tk *task.Task, v Values) {
	v.flat = v.flatten()
	t.fillCommand(tk, &v)
	tk.NoArgs = t.noRecord
	tk.Marks = append(tk.Marks, v.marks...)
	switch line := tk.Argv[len(tk.Argv)-1]; {
	case t.words != nil:
		tk.Err = v.err
	case strings.HasSuffix(line, "\r") || strings.Contains(line, "\r\n"):
		tk.Err = errors.New("the command line ends in a carriage return, as on Windows: write -d '\\r\\n', or take it out first")
	case oddBackslashes(line):
		tk.Err = errors.New("the command line ends in a backslash, and each line is a command: write it on one line")
	case tk.Shell:
		tk.Err = checkDialect(line)
	}
}

func (t *Template) fillCommand(tk *task.Task, v *Values) {
	if t.words == nil {
		tk.Argv, tk.Shell = t.commandLine(v)
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
		tk.Exec = slices.Concat(argv, f.shellArgs(argv[at]))
		argv = append(argv, f.forDisplay())
	}
	for i, w := range tk.Exec {
		tk.Exec[i] = v.seal(w, task.InExec-i)
	}
	for i, w := range argv {
		argv[i] = v.seal(w, i)
	}
	tk.Argv = argv
}

// commandLine returns the command for v if each record is a command line. Several records are the
// lines of one script.
func (t *Template) commandLine(v *Values) (argv []string, shell bool) {
	text := join(v.Records, "\n", func(rec []string) string { return strings.Join(rec, " ") })
	if t.implied && plainText(text) {
		if words, ok := splitPlain(text); ok {
			return append(asFunction(words[0]), words...), false
		}
	}
	return append(slices.Clone(t.shell), notOption(text)), t.implied
}

// Script returns the command that runs a script with args as its arguments. The template must
// have no command. If the script is a plain command line, args become its last words; otherwise
// it must refer to them, as in "$@".
func (t *Template) Script(script string, args []string) (argv []string, shell bool, err error) {
	argv, shell = t.commandLine(&Values{Records: [][]string{{script}}})
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

// Holds reports whether the template has a placeholder for out, an element of Config.Outs.
func (t *Template) Holds(out *Text) bool {
	return t.any(func(p piece) bool { return p.kind == made && p.made == out })
}

// Counts reports whether the template has a placeholder {N}, which stands for the Nth record if
// there are several with one column each.
func (t *Template) Counts() bool { return t.any(func(p piece) bool { return p.kind == column }) }

// Command returns the program that every task runs. ok is false if it varies by task.
func (t *Template) Command() (program string, ok bool) {
	if t.words == nil {
		return t.shell[0], !t.implied
	}
	return t.words[0].fixed()
}
