package expand

import (
	"fmt"
	"slices"
	"strings"

	"crew/runner/task"
)

// word is one word of a command or a text of its own, such as a key.
type word struct {
	text   string // the word, if segs is nil
	segs   []seg
	script bool // for a shell; it takes all records, while other words are repeated for each
}

// seg is text and then, unless value is nil, a value.
type seg struct {
	text  string
	value *piece
	how   quoting
	group int  // segments of one group are repeated for each record; 0 is no group
	lone  bool // it is a word of its own in a script, and so is each column of a record
	ofSSH bool // it is the first or second operand of ssh
}

// newWord returns a word made of pieces, with no quoting. It keeps pieces.
func newWord(pieces []piece) word {
	var w word
	text := ""
	for i := range pieces {
		if p := &pieces[i]; p.kind == literal {
			text += p.text
		} else {
			w.segs = append(w.segs, seg{text: text, value: p})
			text = ""
		}
	}
	if w.segs == nil {
		w.text = text
	} else if text != "" {
		w.segs = append(w.segs, seg{text: text})
	}
	return w
}

// constant reports whether w is the same in every command.
func (w *word) constant() bool { return w.segs == nil }

// any reports whether a placeholder in w satisfies is.
func (w *word) any(is func(piece) bool) bool {
	for i := range w.segs {
		if p := w.segs[i].value; p != nil && (is(*p) || p.kind == nested && p.word.any(is)) {
			return true
		}
	}
	return false
}

// fields appends the names of the entries of Values.Fields that w uses to names,
// which holds each once.
func (w *word) fields(names []string) []string {
	for i := range w.segs {
		switch p := w.segs[i].value; {
		case p == nil:
		case p.kind == nested:
			names = p.word.fields(names)
		case p.kind == field && p.n == 0 && !slices.Contains(names, p.name):
			names = append(names, p.name)
		}
	}
	return names
}

// repeats reports whether a command has w once for each record.
func (w *word) repeats(v *Values) bool {
	return !w.script && w.any(func(p piece) bool { return p.perRecord(v) })
}

// lone reports whether w is {} and nothing else, so that a command has it once for
// each column of each record.
func (w *word) lone() bool {
	return !w.script && len(w.segs) == 1 && w.segs[0].text == "" && w.segs[0].value.kind == record
}

// expand returns w for the record with index r, or a script for all records.
func (w *word) expand(v *Values, r int) string {
	switch {
	case w.segs == nil:
		return w.text
	case w.script:
		return w.build(v, v.Records)
	}
	return w.build(v, v.record(r))
}

// build returns w with the values that its placeholders have in recs.
func (w *word) build(v *Values, recs [][]string) string {
	if g := &w.segs[0]; len(w.segs) == 1 && g.text == "" && g.how == raw && !g.ofSSH && !g.value.ofSlot() {
		return g.value.value(v, recs)
	}
	var a [512]byte
	b := a[:0]
	for i := 0; i < len(w.segs); {
		g := &w.segs[i]
		if g.group == 0 {
			b = g.append(b, v, recs)
			i++
			continue
		}
		end, times := i, 1
		for ; end < len(w.segs) && w.segs[end].group == g.group; end++ {
			if p := w.segs[end].value; p != nil && p.perRecord(v) {
				times = max(1, len(recs))
			}
		}
		for r := range times {
			if r > 0 {
				b = append(b, ' ')
			}
			for j := i; j < end; j++ {
				b = w.segs[j].append(b, v, v.record(r))
			}
		}
		i = end
	}
	return string(b)
}

func (g *seg) append(b []byte, v *Values, recs [][]string) []byte {
	b = append(b, g.text...)
	if g.value == nil {
		return b
	}
	if g.how == columns {
		for _, rec := range recs {
			for _, c := range rec {
				b = append(b, ' ')
				b = append(b, task.Quote(c)...)
			}
		}
		return b
	}
	if g.lone && len(recs) == 1 && len(recs[0]) > 1 {
		for i, c := range recs[0] {
			if i > 0 {
				b = append(b, ' ')
			}
			b = g.how.append(b, g.value.form.of(c))
		}
		return b
	}
	from, marks := len(b), len(v.marks)
	text := g.value.value(v, recs)
	if err := g.how.check(text); err != nil && v.err == nil {
		v.err = fmt.Errorf("%s is %w", g.value.text, err)
	}
	v.checkOperand(g.ofSSH, text)
	b = g.how.append(b, text)
	for i := marks; i < len(v.marks); i++ { // of a nested script, which is in single quotes
		m := &v.marks[i]
		m.Off += from + 1 + 3*strings.Count(text[:m.Off], "'")
	}
	v.mark(g.value, b, from)
	return b
}

// quoting says how a value is written into a script so that the shell reads
// exactly that value.
type quoting uint8

const (
	raw       quoting = iota // as it is: a number made by crew, or a word outside of any script
	single                   // in single quotes
	bare                     // in single quotes only if it needs them
	inDouble                 // inside "…": as it is if harmless, else as outDouble
	outDouble                // inside "…": in single quotes, with the double quotes closed around it
	inSingle                 // inside '…'
	columns                  // every column of every record as a word of its own
	component                // as part of a component of a path, in no script
	number                   // as it is, and it must be an integer
	apart                    // the same in arithmetic, where a minus sign must not join another
	fraction                 // as it is, and it must be a decimal number
)

// maxDigits is how many digits a number can have in every shell's arithmetic.
const maxDigits = 18

// counts reports whether only a number can be written in this way.
func (q quoting) counts() bool { return q == number || q == apart || q == fraction }

// check returns an error if s cannot be written in this way.
func (q quoting) check(s string) error {
	if !q.counts() {
		return nil
	}
	digits, rest, point := strings.Cut(strings.TrimPrefix(s, "-"), ".")
	isDigits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	switch {
	case !isDigits(digits), point && (q != fraction || !isDigits(rest)), len(digits) > 1 && digits[0] == '0':
		return fmt.Errorf("%q, but only a decimal number can stand there", task.Shorten(s, 100))
	case len(digits)+len(rest) > maxDigits:
		return fmt.Errorf("%q, but a number can have %d digits at most there", task.Shorten(s, 100), maxDigits)
	}
	return nil
}

// append appends s to b, quoted.
func (q quoting) append(b []byte, s string) []byte {
	switch q {
	case raw, number, fraction:
		return append(b, s...)
	case apart:
		if strings.HasPrefix(s, "-") {
			b = append(b, ' ')
		}
		return append(b, s...)
	case bare:
		return append(b, task.Quote(s)...)
	case inSingle:
		return appendEscaped(b, s)
	case component:
		if s == "" || s == "." || s == ".." {
			b = append(b, '\\')
		}
		return append(b, componentEscapes.Replace(s)...)
	case inDouble, outDouble:
		if q == inDouble && mildInDouble(s) {
			return append(b, s...)
		}
		return append(appendEscaped(append(b, `"'`...), s), `'"`...)
	}
	return append(appendEscaped(append(b, '\''), s), '\'')
}

var componentEscapes = strings.NewReplacer("/", `\_`, `\`, `\\`, "\t", `\t`, "\x00", `\0`)

// appendEscaped appends s as it is written between single quotes.
func appendEscaped(b []byte, s string) []byte {
	for {
		before, after, found := strings.Cut(s, "'")
		b = append(b, before...)
		if !found {
			return b
		}
		b = append(b, `'\''`...)
		s = after
	}
}

// mildInDouble reports whether every byte of s means itself in double quotes, in
// every shell and locale.
func mildInDouble(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '$' || c == '`' || c == '\\' || c == '!' {
			return false
		}
	}
	return true
}

// size returns what w takes up in a command without records, or an upper bound
// for it. It is 0 if w is repeated for each record.
func (w *word) size() int {
	if !w.script && w.any(piece.ofRecord) {
		return 0
	}
	n := len(w.text) + pointer
	for i := range w.segs {
		g := &w.segs[i]
		n += len(g.text)
		switch {
		case g.value == nil:
		case g.value.kind == nested:
			n += 4 * g.value.word.size()
		case !g.value.ofRecord():
			if n += g.value.room(); w.script {
				n += len(`"''"`)
			}
		}
	}
	return n
}

// recordSize returns what rec adds to w or to its repetitions, or an upper bound
// for it.
func (w *word) recordSize(rec []string) int {
	if w.script {
		return w.scriptRecordSize(rec)
	}
	if !w.any(piece.ofRecord) {
		return 0
	}
	n, v := pointer, Values{}
	for i := range w.segs {
		n += len(w.segs[i].text)
		switch p := w.segs[i].value; {
		case p == nil:
		case w.lone():
			for _, c := range rec {
				n += len(p.form.of(c)) + pointer
			}
			n -= pointer
		case !p.ofRecord():
			n += p.room()
		case p.kind == column && len(rec) == 1:
			n += len(p.form.of(rec[0])) // whichever record {N} will stand for
		default:
			n += len(p.in(&v, rec))
		}
	}
	return n
}

func (w *word) scriptRecordSize(rec []string) int {
	n, quoted := 0, 0
	for _, c := range rec {
		quoted += len(c) + 3*strings.Count(c, "'") + 6 // quotes, a blank, and "." for a directory
	}
	for i := range w.segs {
		g := &w.segs[i]
		if g.group != 0 {
			n += len(g.text) + 1
		}
		switch {
		case g.value == nil || !g.value.ofRecord():
		case g.value.kind == nested:
			n += 4 * g.value.word.scriptRecordSize(rec) // if all of it is quotes
		default:
			n += quoted + len(g.value.text) + 6
		}
	}
	return n
}
