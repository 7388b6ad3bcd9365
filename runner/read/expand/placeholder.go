package expand

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"crew/runner/decide/task"
)

// kind says which part of a task's values a piece of a template stands for.
type kind uint8

const (
	literal kind = iota
	record       // {}
	column       // {N}
	field        // {name}
	seq          // {#}
	worker       // {%}
	host         // {host}
	units        // {gpu}: the units of a Config.Caps
	made         // {out}, {out2}
	nested       // a script within the script
)

// piece is a stretch of text or one placeholder.
type piece struct {
	text string // as written
	kind kind
	form form
	n    int    // column: its number, negative from the end; field: its column, or 0 for an entry of Values.Fields
	name string // field, units
	may  bool   // column or field: the record may lack it
	made *Text  // made: the file

	inner *script // nested

	check check // what the value must be
	path  bool  // the value is part of a component of a path
}

// ofRecord reports whether p takes anything from the record.
func (p piece) ofRecord() bool {
	return p.kind == record || p.kind == column || p.kind == field
}

// ofData reports whether p stands for text that crew has not made.
func (p piece) ofData() bool { return p.ofRecord() || p.kind == made }

// ofEach reports whether p differs from record to record of a task.
func (p piece) ofEach() bool { return p.ofRecord() || p.kind == made && p.made.OfRecord() }

// ofSlot reports whether p is known only when an attempt starts.
func (p piece) ofSlot() bool { return p.kind == worker || p.kind == host || p.kind == units }

// anyText reports whether p may stand for more than digits, and for a value.
func (p piece) anyText() bool { return p.ofData() || p.kind == host || p.kind == units }

// isHole reports whether p is no text of its own.
func (p piece) isHole() bool { return p.kind != literal }

// textOf returns a text with another one instead of each placeholder.
func textOf(pieces []piece, hole string) string {
	return join(pieces, "", func(p piece) string {
		if p.isHole() {
			return hole
		}
		return p.text
	})
}

// scan splits s into text and placeholders.
func scan(s string, cfg *Config) []piece {
	var out []piece
	rep, from := cmp.Or(cfg.Replace, "{}"), 0
	for i := 0; i < len(s); {
		var p piece
		if strings.HasPrefix(s[i:], rep) {
			p = piece{text: rep, kind: record}
		} else if s[i] == '{' {
			p = brace(s[i:], cfg)
		}
		if p.kind == literal {
			i++
			continue
		}
		if from < i {
			out = append(out, piece{text: s[from:i]})
		}
		out = append(out, p)
		i += len(p.text)
		from = i
	}
	if from < len(s) {
		out = append(out, piece{text: s[from:]})
	}
	return out
}

// brace returns the placeholder at the start of s, which is a brace. It returns a
// literal if there is none.
func brace(s string, cfg *Config) piece {
	end := strings.IndexByte(s, '}')
	if end < 2 {
		return piece{} // {} itself is Config.Replace
	}
	p, in := piece{text: s[:end+1]}, s[1:end]
	switch in {
	case "#":
		p.kind = seq
	case "%":
		p.kind = worker
	}
	for _, c := range cfg.Caps {
		if in == c.Name {
			p.kind, p.name = units, in
		}
	}
	for i, out := range cfg.Outs {
		if in == OutName(i) {
			p.kind, p.made = made, out
		}
	}
	for f, suffix := range suffixes {
		name, ok := strings.CutSuffix(in, suffix)
		if !ok || p.kind != literal {
			continue
		}
		p.form = form(f)
		bare, may := strings.CutSuffix(name, "?")
		switch {
		case name == "":
			p.kind = record
		case p.find(name, cfg):
		case may && p.find(bare, cfg):
			p.may = true
			if p.n == 0 {
				p.name = name
			}
		case may && cfg.Names != nil && fieldName(bare):
			p.kind, p.n, p.name, p.may = field, math.MaxInt, bare, true
		}
	}
	if p.kind == literal && p.text == task.HostMark {
		return piece{text: p.text, kind: host}
	}
	return p
}

// OutName returns the name of the placeholder for an element of Config.Outs.
func OutName(i int) string {
	if i == 0 {
		return "out"
	}
	return "out" + strconv.Itoa(i+1)
}

// find makes p the column or field called s, and reports whether there can be
// one. A column's name takes precedence over a number.
func (p *piece) find(s string, cfg *Config) bool {
	if i := slices.Index(cfg.Names, s); i >= 0 {
		p.kind, p.n, p.name = field, i+1, s
		return true
	}
	if n, err := strconv.ParseInt(s, 10, 32); err == nil && n != 0 && strconv.FormatInt(n, 10) == s {
		p.kind, p.n = column, int(n)
		return true
	}
	if cfg.Fields && fieldName(s) {
		p.kind, p.name = field, s
		return true
	}
	return false
}

// fieldName reports whether s may name a field of a record: it starts with a
// letter, an underscore or a byte above ASCII, and may go on with digits, hyphens
// and single dots. Brace expressions of a shell, such as {a,b} and {a..z}, are
// not names.
func fieldName(s string) bool {
	ok, _ := regexp.MatchString(`^([a-zA-Z_]|[^[:ascii:]])(\.?([\w-]|[^[:ascii:]]))*$`, s)
	return ok
}

// Values are the values that go into one command, but for {%}, {host} and {gpu}, which stay in
// the text as marks. This package neither changes nor keeps them.
type Values struct {
	Records [][]string        // the columns of each record; several with Config.Batch
	Fields  map[string]string // what {name} stands for if no column has that name
	Seq     uint64            // {#}

	// state of an expansion

	marks []task.Mark // each {%}, {host} and {gpu} left in the text
	nth   []string    // what {N} stands for, if that is the Nth record
	err   error       // why the command cannot be made
}

// Until a word is complete, a NUL and another byte in it stand for a slot's number, for where
// a {host}, {gpu} or temporary name begins, or for the NUL of a value.
const (
	slotMark = "\x00%"
	textMark = "\x00m"
	tempMark = "\x00t"
	nulMark  = "\x000"
)

// hideNUL returns a value as it stands in a word that is not complete.
func hideNUL(s string) string { return strings.ReplaceAll(s, "\x00", nulMark) }

// seal returns a complete word with {%}, {host} and {gpu} in it, and marks these.
func (v *Values) seal(word string, index int) string {
	if strings.IndexByte(word, 0) < 0 {
		return word
	}
	var b strings.Builder
	for i, part := range strings.Split(word, "\x00") {
		kind := part[:min(i, 1, len(part))]
		switch "\x00" + kind {
		case slotMark, textMark, tempMark:
			v.marks = append(v.marks, task.Mark{Word: index, Off: b.Len(), Temp: kind == tempMark[1:]})
		default:
			b.WriteString("\x00"[:min(i, 1)])
		}
		if kind == slotMark[1:] {
			b.WriteString(task.NumberMark)
		}
		b.WriteString(part[len(kind):])
	}
	return b.String()
}

// verify notes an error unless s, which name stands for, is what it must be.
func (v *Values) verify(c check, name, s string) {
	if err := c.verify(s); err != nil && v.err == nil {
		v.err = fmt.Errorf("%s is %w", name, err)
	}
}

// counted returns what {N} stands for if it counts records, of which there are several
// with one column each; or nil.
func (v *Values) counted() []string {
	several := func(rec []string) bool { return len(rec) != 1 }
	if len(v.Records) < 2 || slices.ContainsFunc(v.Records, several) {
		return nil
	}
	return slices.Concat(v.Records...)
}

// perRecord reports whether p has a value for each record of v.
func (p *piece) perRecord(v *Values) bool {
	return p.kind == record || p.kind == column && v.nth == nil || p.kind == field && p.n > 0 || p.kind == made && p.ofEach()
}

// needed reports whether p stands for a column that a record must have.
func (p *piece) needed() bool {
	return !p.may && (p.kind == column || p.kind == field && p.n > 0)
}

// Check returns an error if one of a task's records lacks a column or, where {N} counts
// records, if there are not as many.
func (h Placeholders) Check(records [][]string) error {
	nth := (&Values{Records: records}).counted()
	for i := range h {
		p := &h[i]
		lacks, of := "the record has no column", records
		if p.kind == column && nth != nil {
			lacks, of = "there is no record", [][]string{nth}
		}
		for _, list := range of {
			switch {
			case !p.needed() || max(p.n, -p.n) <= len(list):
			case p.kind == field:
				return fmt.Errorf("%s %q: write %s where it may be missing", lacks, p.name, p.optional())
			default:
				return fmt.Errorf("%s for %s, only %d: write %s where it may be missing", lacks, p.text, len(list), p.optional())
			}
		}
	}
	return nil
}

// optional returns the placeholder as it is written where the column may be missing.
func (p *piece) optional() string {
	i := strings.LastIndexAny(p.text, "0123456789")
	if p.kind == field {
		i = strings.Index(p.text, p.name) + len(p.name) - 1
	}
	return p.text[:i+1] + "?" + p.text[i+1:]
}

// value returns what p stands for in recs, separated by spaces if it has a value
// for each.
func (p *piece) value(v *Values, recs [][]string) string {
	switch {
	case len(recs) == 0:
		return p.in(v, nil)
	case len(recs) == 1 || !p.perRecord(v):
		return p.in(v, recs[0])
	}
	return join(recs, " ", func(rec []string) string { return p.in(v, rec) })
}

// in returns what p stands for in one record of v. It allocates only to join
// columns and to format a number.
func (p *piece) in(v *Values, rec []string) string {
	switch p.kind {
	case record:
		return join(rec, " ", p.form.of)
	case seq:
		return strconv.FormatUint(v.Seq, 10)
	case worker:
		return slotMark
	case host, units:
		return textMark + p.text
	case made:
		return p.made.target(v, rec)
	}
	if p.n == 0 { // a field
		if s, ok := v.Fields[p.name]; ok {
			return p.form.of(s)
		}
		return p.text
	}
	if p.kind == column && v.nth != nil {
		rec = v.nth
	}
	i := p.n - 1
	if p.n < 0 {
		i = len(rec) + p.n
	}
	if i < 0 || i >= len(rec) {
		return ""
	}
	return p.form.of(rec[i])
}

// join returns the text of each element of list, with sep between them.
func join[T any](list []T, sep string, text func(T) string) string {
	switch len(list) {
	case 0:
		return ""
	case 1:
		return text(list[0])
	}
	var b strings.Builder
	for i, e := range list {
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(text(e))
	}
	return b.String()
}
