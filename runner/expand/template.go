// Package expand turns a command template and records into argument vectors, or
// into shell scripts in which no value ever becomes syntax.
//
// A template is compiled once, and every error in it is reported then. Compiled
// templates never change and are safe for concurrent use.
//
// A script is parsed with mvdan.cc/sh in each language in which its shell may read
// it, after what the parser reads differently from shells has been rewritten
// (rewrite.go). A value may only stand where all of them see the same place, and
// one that is known to be safe (place.go, refuse.go, quote.go, command.go); what
// the script then does with it is followed as far as the script shows it
// (around.go, variable.go). Where only a number is safe, each value is checked. A
// script within the script is compiled like the outer one, for the shell that will
// read it.
//
// The package is pure, but for asking /bin/sh whether it understands what a script
// for it holds and POSIX does not have (dialect.go).
package expand

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"crew/runner/task"
)

// Config describes a command template.
type Config struct {
	Words   []string // the command; if empty, each record is a shell command line
	Shell   string   // shell and options that run scripts; "" means /bin/sh, used only where a shell is needed
	Replace string   // placeholder for the record; "" means "{}"
	Names   []string // names of the columns
	Fields  bool     // {name} may name an entry of Values.Fields
	Append  bool     // append the record to a command without placeholders
	Empty   bool     // insert nothing of the record
	Batch   bool     // a command may take several records

	NoRecord bool // there are only blocks of a stream, so what takes something of a record is refused
}

const defaultShell = "/bin/sh"

// Validate reports the first error in the configuration that shows without
// compiling it.
func (c Config) Validate() error {
	if c.Shell != "" && strings.Trim(c.Shell, " \t") == "" {
		return errors.New("the shell has no name: give its path")
	}
	if len(c.Words) > 0 && (c.Words[0] == "" || strings.Trim(strings.Join(c.Words, ""), " \t\n") == "") {
		return errors.New("the command is empty: name a program, or give no command to run each record as a command line")
	}
	return nil
}

// Bare reports whether the command holds no placeholder.
func (c Config) Bare() bool {
	return !slices.ContainsFunc(c.Words, func(w string) bool {
		return slices.ContainsFunc(scan(w, &c), func(p piece) bool { return p.kind != literal })
	})
}

// Program returns the name of the program that every task runs, as Template.Command does,
// but before the names of columns are known. It is "" if it varies by task, or if a shell
// is needed that was not asked for.
func (c Config) Program() string {
	if shell := strings.Fields(c.Shell); len(shell) > 0 || len(c.Words) == 0 {
		return strings.Join(shell[:min(1, len(shell))], "")
	}
	first := scan(c.Words[0], &c)
	if len(c.Words) == 1 {
		words, ok := plain(first)
		if !ok {
			return ""
		}
		first = words[0]
	}
	if len(first) != 1 || first[0].kind != literal || asFunction(first[0].text) != nil {
		return ""
	}
	return first[0].text
}

// Template is a compiled command. It is safe for concurrent use.
type Template struct {
	words   []word   // nil if each record is a command line
	shell   []string // the shell and its options, for scripts
	implied bool     // the default shell was not asked for, so people are shown its script alone
	args    bool     // every column of every record is appended as a word
	ofSSH   bool     // ssh reads the first of these as the name of a host
	empty   bool     // nothing of the record is inserted
	dialect *dialect // of the default shell if it is implied
}

// New compiles a template. Its errors say what is wrong and, after a colon, what
// to write instead.
func New(cfg Config) (*Template, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	words := cfg.Words
	if slices.Contains(words, "{=") { // the first of several that parallel joins
		words = append(slices.Clone(words), strings.Join(words, " "))
	}
	for _, w := range words {
		if err := cfg.check(w); err != nil {
			return nil, err
		}
	}
	t, err := &Template{empty: cfg.Empty}, error(nil)
	switch forced := strings.Fields(cfg.Shell); {
	case len(cfg.Words) == 0:
		t.useShell(forced)
	case len(forced) > 0:
		t.useShell(forced)
		err = t.compileScript(strings.Join(cfg.Words, " "), &cfg)
	case len(cfg.Words) == 1:
		if words, ok := plain(scan(cfg.Words[0], &cfg)); ok {
			err = t.compileWords(words, &cfg)
		} else {
			t.useShell(nil)
			if err = t.compileScript(cfg.Words[0], &cfg); err == nil {
				err = t.dialect.check(textOf(scan(cfg.Words[0], &cfg)))
			}
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
	if t.shell == nil && t.words[0].constant() {
		for i, w := range asFunction(t.words[0].text) {
			t.words = slices.Insert(t.words, i, word{text: w})
		}
	}
	return t, nil
}

// useShell sets the shell, and adds -c unless forced ends in such an option.
func (t *Template) useShell(forced []string) {
	if len(forced) == 0 {
		t.shell, t.implied, t.dialect = []string{defaultShell, "-c"}, true, newDialect()
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

// compileScript makes t run s in its shell.
func (t *Template) compileScript(s string, cfg *Config) error {
	f, at := familyOfCommand(t.shell)
	c := compiler{family: f, batch: cfg.Batch, empty: cfg.Empty}
	script, err := c.script(scan(notOption(s), cfg), t.shell[at], cfg.Append && !cfg.Empty)
	if err != nil {
		return err
	}
	for _, s := range t.shell {
		t.words = append(t.words, word{text: s})
	}
	t.words = append(t.words, script)
	if f.posixFamily() {
		return nil
	}
	t.args = cfg.Append && !cfg.Empty
	if t.needsDashes() {
		t.words = append(t.words, word{text: "--"})
	}
	return nil
}

// needsDashes reports whether the shell, without a "--" after its script, takes
// an argument for an option or for another script.
func (t *Template) needsDashes() bool {
	_, at := familyOfCommand(t.shell)
	return slices.Contains([]string{"fish", "perl", "ruby", "node", "php"}, basename(t.shell[at]))
}

// script compiles a script for the shell of c. If add is set, the record is appended
// to a script without placeholders; only a POSIX shell's can be.
func (c compiler) script(pieces []piece, shell string, add bool) (word, error) {
	if c.family.posixFamily() {
		return c.compile(pieces, add)
	}
	if i := slices.IndexFunc(pieces, piece.ofRecord); i >= 0 {
		how := "leave it out and read the arguments, as with $argv[1] in fish or sys.argv[1] in python"
		switch shell {
		case "watch", "parallel", "crew", "tmux", "env --split-string":
			how = `pass it as an argument, as in sh -c '… "$1"' sh {}`
		}
		return word{}, fmt.Errorf("%s cannot stand in a script for %s, whose quoting crew does not know: %s", pieces[i].text, shell, how)
	}
	w := newWord(pieces)
	w.script = true
	return w, nil
}

// notOption returns a script that no shell takes for an option.
func notOption(script string) string {
	if strings.HasPrefix(script, "-") || strings.HasPrefix(script, "+") {
		return " " + script
	}
	return script
}

// errRecord returns the error for a record that would be the whole of sc.
func errRecord(sc script) error {
	how := "give no command at all to run each record as a command line"
	if sc.shell == "ssh" {
		how = "give it to a shell on the other side, as in crew --stdin ssh host sh"
	}
	return fmt.Errorf("a record as the script of a shell would be run, whatever it holds: %s", how)
}

// compileWords makes t a command of words. A shell among them may have a script.
func (t *Template) compileWords(words [][]piece, cfg *Config) error {
	args := make([]arg, len(words))
	for i, w := range words {
		args[i].known = true
		for _, p := range w {
			if p.kind == literal {
				args[i].text += p.text
			} else {
				args[i].text += markText
				args[i].marks = true
			}
		}
	}
	sc, inline := scriptOf(args, foreign)
	t.args = cfg.Append && !cfg.Empty
	for i := 0; i < len(words); i++ {
		w := words[i]
		if inline && i == sc.from {
			if err := t.compileNested(sc, words, cfg); err != nil {
				return err
			}
			i = sc.to - 1
			t.args = t.args && t.words[len(t.words)-1].constant()
			continue
		}
		n := len(w)
		if n > 0 && w[0].ofRecord() && firstOperand(args, i) {
			t.words = append(t.words, word{text: "--"}) // the record may be an option, and the next a script
		}
		if n > 0 && w[0].ofRecord() && mayBeOption(args, i) {
			return fmt.Errorf("%s %w", w[0].text, refuseOption(args).err)
		}
		if cfg.Empty {
			w = slices.DeleteFunc(w, piece.ofRecord)
		}
		if len(w) == 0 && n > 0 {
			continue
		}
		t.words = append(t.words, newWord(w))
		last := &t.words[len(t.words)-1]
		t.args = t.args && last.constant()
		if !last.constant() && isHost(args, i) {
			last.segs[0].ofSSH = true
		}
	}
	if len(t.words) == 0 {
		return errors.New("nothing is left of the command without the record: name a program")
	}
	all := append(args, arg{text: markText, known: true, marks: true})
	t.ofSSH = t.args && isHost(all, len(args))
	switch {
	case t.args && inline && sc.from == len(words):
		return errRecord(sc)
	case t.args && mayBeOption(all, len(args)):
		return fmt.Errorf("{} %w", refuseOption(args).err)
	case t.args && firstOperand(args, len(args)):
		t.words = append(t.words, word{text: "--"})
	}
	return nil
}

// compileNested appends the script sc among words, which a shell will read.
func (t *Template) compileNested(sc script, words [][]piece, cfg *Config) error {
	var pieces []piece
	for i := sc.from; i < sc.to; i++ {
		if i > sc.from {
			pieces = append(pieces, piece{text: " "})
		}
		pieces = append(pieces, words[i]...)
	}
	isHole := func(p piece) bool { return p.kind != literal }
	add := sc.shell == "ssh" && cfg.Append && !cfg.Empty &&
		!slices.ContainsFunc(words, func(w []piece) bool { return slices.ContainsFunc(w, isHole) })
	if !add && !slices.ContainsFunc(pieces, isHole) {
		for _, w := range words[sc.from:sc.to] {
			t.words = append(t.words, newWord(w))
		}
		return nil
	}
	if sc.attached > 0 {
		t.words = append(t.words, word{text: sc.option})
		pieces[0].text = pieces[0].text[sc.attached:]
	}
	if len(pieces) == 1 && pieces[0].ofRecord() && sc.family != foreign {
		return errRecord(sc)
	}
	c := compiler{family: sc.family, batch: cfg.Batch, empty: cfg.Empty}
	script, err := c.script(pieces, sc.shell, add)
	if len(script.segs) > 0 && pieces[0].ofRecord() {
		script.segs[0].ofSSH = sc.shell == "ssh"
	}
	t.words = append(t.words, script)
	return err
}

// Argv returns the command for v. The caller owns the slice. shell is true if it
// is the default shell with a script made by this package, so that the script
// alone is worth showing; in a template without a command, that varies by record.
func (t *Template) Argv(v Values) (argv []string, shell bool) { return t.argv(&v) }

// Fill sets tk's command to the one for v, and its Err if v holds a value that
// cannot stand where it belongs, or if the default shell would not understand it.
// It sets tk.NoArgs, too, and appends a mark to tk.Marks for each {host} and, if v has no worker, each {%}.
func (t *Template) Fill(tk *task.Task, v Values) {
	tk.Argv, tk.Shell = t.argv(&v)
	tk.NoArgs = t.empty
	tk.Marks = append(tk.Marks, v.marks...)
	switch line := tk.Argv[len(tk.Argv)-1]; {
	case v.err != nil, t.words != nil:
		tk.Err = v.err
	case strings.HasSuffix(line, "\r") || strings.Contains(line, "\r\n"):
		tk.Err = errors.New("the command line ends in a carriage return, as on Windows: write -d '\\r\\n', or take it out first")
	case tk.Shell:
		tk.Err = t.dialect.check(line)
	}
}

func (t *Template) argv(v *Values) (argv []string, shell bool) {
	if t.words == nil {
		return t.line(v)
	}
	n := len(t.words)
	if t.args {
		for _, rec := range v.Records {
			n += len(rec)
		}
	}
	argv = make([]string, 0, n)
	v.nth = v.countsRecords()
	for i := range t.words {
		w, times := &t.words[i], 1
		if w.lone() && len(v.Records) > 0 && len(v.Records[0]) > 0 {
			argv = slices.Grow(argv, len(v.Records)+len(t.words)-i-1)
			for _, rec := range v.Records {
				for _, c := range rec {
					c = w.segs[0].value.form.of(c)
					v.checkOperand(w.segs[0].ofSSH, c)
					argv = append(argv, c)
				}
			}
			continue
		}
		if len(v.Records) > 1 && w.repeats(v) {
			times = len(v.Records)
			argv = slices.Grow(argv, times+len(t.words)-i-1)
		}
		for r := range times {
			v.word = len(argv)
			argv = append(argv, w.expand(v, r))
		}
	}
	if t.args {
		for _, rec := range v.Records {
			argv = append(argv, rec...)
		}
		v.checkOperand(t.ofSSH && len(argv) > len(t.words), argv[min(len(t.words), len(argv)-1)])
	}
	return argv, t.implied
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
		if err := t.dialect.check(script); err != nil {
			return nil, false, err
		}
	}
	switch {
	case len(args) == 0:
		return argv, shell, nil
	case t.implied && !shell: // a plain command line
	case !familyOf(t.shell[0]).posixFamily():
		if t.needsDashes() {
			argv = append(argv, "--")
		}
	case !strings.Contains(script, "$"):
		return nil, false, errors.New(`the script does not mention its arguments: write "$@" where they go`)
	default:
		argv = append(argv, basename(t.shell[0])) // $0
	}
	return append(argv, args...), false, nil
}

// Fields returns the names of the entries of Values.Fields that the template uses.
func (t *Template) Fields() (names []string) {
	for i := range t.words {
		names = t.words[i].fields(names)
	}
	return names
}

// Counts reports whether the template holds {N}, which stands for the Nth record
// of several that have one column each.
func (t *Template) Counts() bool {
	isColumn := func(p piece) bool { return p.kind == column }
	return slices.ContainsFunc(t.words, func(w word) bool { return w.any(isColumn) })
}

// SingleWord reports whether all records of a command go into one word, so that
// the system's limit for one argument bounds them together.
func (t *Template) SingleWord() bool {
	return !t.args && (t.words == nil || slices.ContainsFunc(t.words, func(w word) bool { return w.script }))
}

// Command returns the program that every task runs. ok is false if it varies by
// task.
func (t *Template) Command() (program string, ok bool) {
	if t.words == nil {
		return t.shell[0], !t.implied
	}
	return t.words[0].text, t.words[0].constant()
}

// pointer is what a word takes up in a command besides its bytes: a NUL and a
// pointer in argv.
const pointer = 1 + 8

// BaseSize returns how many bytes a command without records takes up, including
// NULs and pointers, or an upper bound for it.
func (t *Template) BaseSize() int {
	n := 0
	if t.words == nil {
		for _, s := range t.shell {
			n += len(s) + pointer
		}
		return n + pointer
	}
	for i := range t.words {
		n += t.words[i].size()
	}
	return n
}

// RecordSize returns how many bytes rec adds to a command. It is exact for
// words, unless {N} counts records, and an upper bound for scripts.
func (t *Template) RecordSize(rec []string) int {
	n := 0
	if t.words == nil {
		for _, c := range rec { // each word of a plain command line takes a pointer
			n += len(c) + 1 + 8*(strings.Count(c, " ")+strings.Count(c, "\t")+1)
		}
		return n
	}
	if t.args {
		for _, c := range rec {
			n += len(c) + pointer
		}
	}
	for i := range t.words {
		n += t.words[i].recordSize(rec)
	}
	return n
}
