// Package expand makes commands of a template and records: argument vectors,
// or scripts for a shell in which no value ever becomes syntax.
//
// A template is compiled once, and all that can be wrong with it is said then.
// Compiled ones do not change and are safe for concurrent use. The quoting of a
// script stands on the parser of mvdan.cc/sh: a script is read as bash and as a
// POSIX shell would read it, and where the two disagree, or a place is not known
// to be safe, the placeholder is refused.
package expand

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"crew/runner/task"
)

// Config says what a Template is made of.
type Config struct {
	Words   []string // the command line's words; none: each record is itself a shell command line
	Shell   string   // what runs scripts, with options if any; "" is /bin/sh, and only where one is needed
	Replace string   // what stands for the record instead of "{}"; "" is "{}"
	Names   []string // the names of the columns
	Fields  bool     // {name} may be a field that a record brings along in Values.Fields
	Append  bool     // append the record where the command has no placeholder
	Empty   bool     // insert nothing of a record
	Batch   bool     // a command may take several records
}

const defaultShell = "/bin/sh"

// Validate returns what is wrong with the configuration by itself.
func (c *Config) Validate() error {
	if c.Shell != "" && strings.Trim(c.Shell, " \t") == "" {
		return errors.New("the shell has no name: give its path")
	}
	if len(c.Words) > 0 && (c.Words[0] == "" || strings.Trim(strings.Join(c.Words, ""), " \t\n") == "") {
		return errors.New("the command is empty: name a program, or give no command to run each record as a command line")
	}
	return nil
}

// Template is a compiled command. It is safe for concurrent use.
type Template struct {
	words  []word
	script *script  // shell mode
	lines  bool     // no command: each record is a script of its own
	prefix []string // the shell and its options, before the script
	args   bool     // every column of every record follows as a word
	counts bool     // {N} is in the words, or in a script among them
	ends   bool     // "--" stands between the script and them
	shown  bool     // the script is shown, and not the shell
	worker bool     // {%} is in it
	copies int      // words that are repeated for each record
}

// New compiles a template. An error says what is wrong and, after a colon, how
// to write it.
func New(cfg Config) (*Template, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t := &Template{}
	if err := t.compile(&cfg); err != nil {
		return nil, err
	}
	return t, nil
}

// compile decides between words and a script.
func (t *Template) compile(cfg *Config) error {
	forced := strings.Fields(cfg.Shell)
	switch {
	case len(cfg.Words) == 0:
		t.lines = true
		t.useShell(forced)
		return nil
	case len(forced) > 0:
		t.useShell(forced)
		return t.compileScript(strings.Join(cfg.Words, " "), cfg, familyOf(forced[0]))
	case len(cfg.Words) == 1:
		words, ok := plain(scan(cfg.Words[0], cfg))
		if !ok {
			t.useShell(nil)
			return t.compileScript(cfg.Words[0], cfg, posix)
		}
		return t.compileWords(words, cfg)
	}
	words := make([][]piece, len(cfg.Words))
	for i, w := range cfg.Words {
		words[i] = scan(w, cfg)
	}
	return t.compileWords(words, cfg)
}

// useShell sets what runs the script. Unless forced says so itself, that is -c.
func (t *Template) useShell(forced []string) {
	if len(forced) == 0 {
		t.prefix, t.shown = []string{defaultShell, "-c"}, true
		return
	}
	t.prefix = slices.Clip(forced)
	last := forced[len(forced)-1]
	named := len(forced) > 1 && strings.HasPrefix(last, "-")
	if named && familyOf(forced[0]) != foreign {
		named = cluster(last, 'c') && strings.HasSuffix(last, "c")
	}
	if !named {
		t.prefix = append(t.prefix, "-c")
	}
}

// compileScript makes the template a script for a shell.
func (t *Template) compileScript(s string, cfg *Config, f family) error {
	if strings.HasPrefix(s, "-") || strings.HasPrefix(s, "+") {
		s = " " + s // or the shell takes it for an option
	}
	pieces := scan(s, cfg)
	if f.posixFamily() {
		var err error
		t.script, err = compiler{family: f, batch: cfg.Batch, empty: cfg.Empty}.compile(pieces, cfg.Append && !cfg.Empty)
		if err == nil {
			t.worker = t.script.holds(worker)
		}
		return err
	}
	for i := range pieces {
		if pieces[i].ofRecord() {
			return fmt.Errorf("%s cannot stand in a script for %s, whose quoting crew does not know: "+
				"the columns come as arguments, $argv[1] in fish, sys.argv[1] in python", pieces[i].text, t.prefix[0])
		}
	}
	t.script = numbers(pieces)
	t.worker = t.script.holds(worker)
	t.args = cfg.Append && !cfg.Empty
	switch basename(t.prefix[0]) {
	case "fish", "perl", "ruby", "node", "php":
		t.ends = true // or they take a value for an option, and what follows -c or -e for a script
	}
	return nil
}

// Argv is the command for v. The slice and its strings belong to the caller.
// shell says that it is the default shell with a script of crew's making, so
// that the script alone is what a person wants to see. Without a command it
// differs from record to record.
func (t *Template) Argv(v Values) (argv []string, shell bool) { return t.argv(&v) }

// Fill gives a task its command for v. Where v has no worker, the task's marks
// say where its number goes.
func (t *Template) Fill(tk *task.Task, v Values) {
	tk.Argv, tk.Shell = t.argv(&v)
	tk.Marks = append(tk.Marks, v.marks...)
}

func (t *Template) argv(v *Values) (argv []string, shell bool) {
	switch {
	case t.lines:
		return t.line(v)
	case t.script == nil:
		return t.direct(v), false
	}
	argv = make([]string, 0, len(t.prefix)+1+t.columns(v))
	argv = append(argv, t.prefix...)
	v.word = len(argv)
	argv = append(argv, t.script.expand(v))
	if t.ends {
		argv = append(argv, "--")
	}
	return t.appendColumns(argv, v), t.shown
}

// appendColumns appends what follows the command's own words.
func (t *Template) appendColumns(argv []string, v *Values) []string {
	if t.args {
		for _, rec := range v.Records {
			argv = append(argv, rec...)
		}
	}
	return argv
}

// columns is how many words follow the command's own.
func (t *Template) columns(v *Values) int {
	n := 0
	if t.ends {
		n++
	}
	if t.args {
		for _, rec := range v.Records {
			n += len(rec)
		}
	}
	return n
}

// line is the command where each record is one itself. Several records make a
// script of several lines.
func (t *Template) line(v *Values) (argv []string, shell bool) {
	var text string
	switch len(v.Records) {
	case 0:
	case 1:
		text = joinColumns(v.Records[0])
	default:
		lines := make([]string, len(v.Records))
		for i, rec := range v.Records {
			lines[i] = joinColumns(rec)
		}
		text = strings.Join(lines, "\n")
	}
	if t.shown {
		if words, ok := fields(text); ok {
			return words, false
		}
	}
	if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
		text = " " + text
	}
	argv = make([]string, 0, len(t.prefix)+1)
	return append(append(argv, t.prefix...), text), t.shown
}

func joinColumns(rec []string) string {
	if len(rec) == 1 {
		return rec[0]
	}
	return strings.Join(rec, " ")
}

// UsesWorker says whether the command differs from worker to worker: {%} is in
// it.
func (t *Template) UsesWorker() bool { return t.worker }

// Counts says whether {N} is in it, which of several records of one column is
// the Nth.
func (t *Template) Counts() bool { return t.counts || t.script != nil && t.script.counts }

// SingleWord says whether records go into a word that the command has anyhow,
// so that what the system takes as one argument bounds them all together.
func (t *Template) SingleWord() bool {
	if t.lines || t.script != nil {
		return !t.args
	}
	return slices.ContainsFunc(t.words, func(w word) bool { return w.script != nil })
}

// Command is the program that every task runs; ok is false where it differs
// from task to task.
func (t *Template) Command() (program string, ok bool) {
	switch {
	case t.lines && t.shown:
		return "", false
	case t.lines, t.script != nil:
		return t.prefix[0], true
	}
	w := &t.words[0]
	return w.text, w.constant()
}

// Values are what one command is made of. Nothing of them is changed or kept.
type Values struct {
	Records [][]string        // each record's columns; several with a batch
	Fields  map[string]string // {name} of this record where no column has the name
	Seq     uint64            // {#}
	Worker  int               // {%}, from 1; 0 leaves it as it stands

	// the {%} that were left as they stand, and the word that is being expanded

	marks []task.Mark
	word  int
}

// mark notes that p stands in text, which is the word being expanded so far,
// behind its first from bytes.
func (v *Values) mark(p *piece, text []byte, from int) {
	if p.kind == worker && v.Worker == 0 {
		off := from + bytes.Index(text[from:], []byte(p.text)) // behind the quotes, if any
		v.marks = append(v.marks, task.Mark{Word: v.word, Off: off})
	}
}

// pointer is what a word of a command occupies besides its bytes: its NUL, and
// its place in argv.
const pointer = 1 + 8

// BaseSize is how many bytes a command without records occupies, NULs and
// pointers counted, or more: numbers count with their most digits.
func (t *Template) BaseSize() int {
	n := 0
	for _, s := range t.prefix {
		n += len(s) + pointer
	}
	if t.ends {
		n += len("--") + pointer
	}
	switch {
	case t.lines:
		return n + pointer
	case t.script != nil:
		return n + t.script.size() + pointer
	}
	for i := range t.words {
		n += t.words[i].size()
	}
	return n
}

// RecordSize is how many bytes more the command occupies for a record: exactly
// that for words, where {N} does not count records, and an upper bound for
// scripts.
func (t *Template) RecordSize(rec []string) int {
	n := 0
	if t.lines {
		// Cut into words, each of them takes a pointer.
		for _, c := range rec {
			n += len(c) + 1 + 8*(strings.Count(c, " ")+strings.Count(c, "\t")+1)
		}
		return n
	}
	if t.args {
		for _, c := range rec {
			n += len(c) + pointer
		}
	}
	if t.script != nil {
		n += t.script.recordSize(rec)
	}
	for i := range t.words {
		n += t.words[i].recordSize(rec)
	}
	return n
}
