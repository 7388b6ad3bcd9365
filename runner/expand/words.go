package expand

import (
	"errors"
	"fmt"
	"slices"
)

// word is one word of a command that runs without a shell.
type word struct {
	text   string  // the word, where nothing in it varies
	pieces []piece // else what it is made of
	script *script // or the script that it is, for a shell among the words before it
}

var errScript = errors.New("a record as the script of a shell would be run, whatever it holds: " +
	"give no command at all to run each record as a command line")

// compileWords makes the template a command of words.
func (t *Template) compileWords(words [][]piece, cfg *Config) error {
	args := make([]arg, len(words))
	some := false
	for i, w := range words {
		args[i].static = true
		for _, p := range w {
			args[i].static = args[i].static && p.kind == literal
			some = some || p.kind != literal
			args[i].text += p.text
		}
	}
	at, _, f := inlined(args)
	t.args = cfg.Append && !cfg.Empty
	if at == len(words) && t.args && !some {
		return errScript
	}
	some = false
	for i, w := range words {
		if i == at {
			sc, err := compileInline(w, cfg, f)
			if err != nil {
				return err
			}
			t.words = append(t.words, word{script: sc})
			some = some || sc.holdsAny()
			t.worker = t.worker || sc.holds(worker)
			t.counts = t.counts || sc.counts
			continue
		}
		for _, p := range w {
			some = some || p.kind != literal
		}
		if w, ok := makeWord(w, cfg.Empty); ok {
			t.words = append(t.words, w)
		}
	}
	t.args = t.args && !some
	for i := range t.words {
		for _, p := range t.words[i].pieces {
			t.worker = t.worker || p.kind == worker
			t.counts = t.counts || p.kind == column
		}
		if t.words[i].ofRecord() {
			t.copies++
		}
	}
	if len(t.words) == 0 {
		return errors.New("nothing is left of the command without the record: name a program")
	}
	return nil
}

// compileInline compiles the script that a shell of the family takes from the
// command's words.
func compileInline(w []piece, cfg *Config, f family) (*script, error) {
	if len(w) == 1 && w[0].ofRecord() {
		return nil, errScript
	}
	if !f.posixFamily() {
		for i := range w {
			if w[i].ofRecord() {
				return nil, fmt.Errorf("%s cannot stand in a script for this shell, whose quoting crew does not know: "+
					"pass it as an argument behind the script, $argv[1] in fish", w[i].text)
			}
		}
		return numbers(w), nil
	}
	return compiler{family: f, batch: cfg.Batch, empty: cfg.Empty}.compile(w, false)
}

// makeWord makes a word of its pieces. With empty it leaves out what is of the
// record; ok is false where nothing else was there.
func makeWord(pieces []piece, empty bool) (w word, ok bool) {
	if empty {
		n := len(pieces)
		pieces = slices.DeleteFunc(slices.Clone(pieces), func(p piece) bool { return p.ofRecord() })
		if n > 0 && len(pieces) == 0 {
			return word{}, false
		}
	}
	if !slices.ContainsFunc(pieces, func(p piece) bool { return p.kind != literal }) {
		for _, p := range pieces {
			w.text += p.text
		}
		return w, true
	}
	w.pieces = pieces
	return w, true
}

// constant says whether the word is the same in every command.
func (w *word) constant() bool { return w.pieces == nil && w.script == nil }

// ofRecord says whether something in the word may be different for each record.
func (w *word) ofRecord() bool {
	for i := range w.pieces {
		if w.pieces[i].ofRecord() {
			return true
		}
	}
	return false
}

// direct is the command of words for v.
func (t *Template) direct(v *Values) []string {
	var first []string
	if len(v.Records) > 0 {
		first = v.Records[0]
	}
	n := len(t.words) + t.columns(v)
	if len(v.Records) > 1 {
		n += t.copies * (len(v.Records) - 1)
	}
	nth := t.counts && v.nth()
	argv := make([]string, 0, n)
	for i := range t.words {
		w := &t.words[i]
		v.word = len(argv)
		switch {
		case w.script != nil:
			argv = append(argv, w.script.expand(v))
			continue
		case w.pieces == nil:
			argv = append(argv, w.text)
			continue
		}
		argv = append(argv, w.expand(v, first, nth))
		if len(v.Records) > 1 && w.perRecord(nth) {
			for _, rec := range v.Records[1:] {
				v.word = len(argv)
				argv = append(argv, w.expand(v, rec, nth))
			}
		}
	}
	return t.appendColumns(argv, v)
}

// perRecord says whether the word is repeated for each record.
func (w *word) perRecord(nth bool) bool {
	for i := range w.pieces {
		if w.pieces[i].perRecord(nth) {
			return true
		}
	}
	return false
}

// expand is the word with the values of one record.
func (w *word) expand(v *Values, rec []string, nth bool) string {
	if p := &w.pieces[0]; len(w.pieces) == 1 && p.kind != worker {
		return p.in(v, rec, nth)
	}
	var a [256]byte
	b := a[:0]
	for i := range w.pieces {
		from := len(b)
		b = append(b, w.pieces[i].in(v, rec, nth)...)
		v.mark(&w.pieces[i], b, from)
	}
	return string(b)
}

// in is what p stands for in a command of which rec is a record.
func (p *piece) in(v *Values, rec []string, nth bool) string {
	if nth && p.kind == column {
		return p.nth(v)
	}
	return p.value(v, rec)
}

// digits is room for a task's or worker's number.
const digits = len("18446744073709551615")

// size is what the word occupies in a command without records.
func (w *word) size() int {
	switch {
	case w.script != nil:
		return w.script.size() + pointer
	case w.ofRecord():
		return 0
	}
	n := len(w.text) + pointer
	for i := range w.pieces {
		if w.pieces[i].number() {
			n += digits
		} else {
			n += len(w.pieces[i].text)
		}
	}
	return n
}

// recordSize is what a record adds to the word or to its repetitions.
func (w *word) recordSize(rec []string) int {
	if w.script != nil {
		return w.script.recordSize(rec)
	}
	if !w.ofRecord() {
		return 0
	}
	n, v := pointer, Values{}
	for i := range w.pieces {
		switch p := &w.pieces[i]; {
		case p.number():
			n += digits
		case p.kind == column && len(rec) == 1:
			n += len(p.form.of(rec[0])) // whichever record {N} is going to be
		default:
			n += len(p.value(&v, rec))
		}
	}
	return n
}
