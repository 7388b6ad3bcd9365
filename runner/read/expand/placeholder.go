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

// kind says which of a task's values a piece of a template stands for.
type kind uint8

const (
	literal kind = iota
	record       // {}
	column       // {N}
	field        // {name}
	seq          // {#}
	worker       // {%}
	host         // {host}
	units        // {gpu}: the units of a limit in Config.Caps that the attempt holds
	made         // {out}, {out2}
	nested       // a script within the script
)

// piece is a piece of text or one placeholder.
type piece struct {
	text       string // as written
	kind       kind
	form       form
	n          int    // column: its number, negative if counted from the end; field: its column, or 0 for an entry of Values.Fields
	name       string // field, units
	isOptional bool   // column or field: the record may lack it
	made       *Text  // made: the file

	inner *script // nested

	check check // condition on the value
	path  bool  // the value is part of one component of a path
}

// ofRecord reports whether p depends on the record.
func (p piece) ofRecord() bool {
	return p.kind == record || p.kind == column || p.kind == field
}

// ofData reports whether p stands for text that does not come from crew.
func (p piece) ofData() bool { return p.ofRecord() || p.kind == made }

// ofEach reports whether p can differ between the records of a task.
func (p piece) ofEach() bool { return p.ofRecord() || p.kind == made && p.made.OfRecord() }

// ofSlot reports whether the value of p is known only when an attempt starts.
func (p piece) ofSlot() bool { return p.kind == worker || p.kind == host || p.kind == units }

// anyText reports whether the value of p may hold more than digits.
func (p piece) anyText() bool { return p.ofData() || p.kind == host || p.kind == units }

// isPlaceholder reports whether p is not literal text.
func (p piece) isPlaceholder() bool { return p.kind != literal }

// textOf returns the text of pieces with hole in the place of each placeholder.
func textOf(pieces []piece, hole string) string {
	return join(pieces, "", func(p piece) string {
		if p.isPlaceholder() {
			return hole
		}
		return p.text
	})
}

// scan splits s into pieces of text and placeholders.
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

// brace returns the placeholder at the start of s, which is a brace, or a literal if there is no
// placeholder.
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
		case p.setColumn(name, cfg):
		case may && p.setColumn(bare, cfg):
			p.isOptional = true
			if p.n == 0 {
				p.name = name
			}
		case may && cfg.Names != nil && fieldName(bare):
			p.kind, p.n, p.name, p.isOptional = field, math.MaxInt, bare, true
		}
	}
	if p.kind == literal && p.text == task.HostMark {
		p.kind = host
	}
	return p
}

// OutName returns the name of the placeholder for Config.Outs[i].
func OutName(i int) string {
	if i == 0 {
		return "out"
	}
	return "out" + strconv.Itoa(i+1)
}

// setColumn makes p the column or field called s, and reports whether s can be one. The name of a
// column takes precedence over a number.
func (p *piece) setColumn(s string, cfg *Config) bool {
	if i := slices.Index(cfg.Names, s); i >= 0 {
		p.kind, p.n, p.name = field, i+1, s
		return true
	}
	if n, _ := strconv.ParseInt(s, 10, 32); n != 0 && strconv.FormatInt(n, 10) == s {
		p.kind, p.n = column, int(n)
		return true
	}
	if cfg.Fields && fieldName(s) {
		p.kind, p.name = field, s
		return true
	}
	return false
}

// fieldName reports whether s can be the name of a field: a letter, an underscore or a byte
// above ASCII, followed by these, digits, hyphens and single dots. Brace expressions of
// a shell, such as {a,b} and {a..z}, are not names.
func fieldName(s string) bool {
	ok, _ := regexp.MatchString(`^([a-zA-Z_]|[^[:ascii:]])(\.?([\w-]|[^[:ascii:]]))*$`, s)
	return ok
}

// Values are the values that are inserted into one command, except for {%}, {host} and {gpu}, which
// stay in the text as marks. This package neither changes nor keeps them.
type Values struct {
	Records [][]string        // columns of each record; more than one only with Config.Batch
	Fields  map[string]string // values of {name} if no column has that name
	Seq     uint64            // {#}

	// state of an expansion

	marks []task.Mark // positions of the {%}, {host} and {gpu} left in the text
	flat  []string    // the records, if {N} stands for the Nth record; otherwise nil
	err   error       // why the command cannot be made
}

// Until a word is complete, a NUL byte and the byte after it mark the number of a slot, the
// start of a {host} or {gpu}, the start of a temporary name, or a NUL byte of a value.
const (
	slotMark = "\x00%"
	textMark = "\x00m"
	tempMark = "\x00t"
	nulMark  = "\x000"
)

// hideNUL returns a value in the form that it has in an incomplete word.
func hideNUL(s string) string { return strings.ReplaceAll(s, "\x00", nulMark) }

// seal returns a complete word, and appends the positions of the {%}, {host} and {gpu} in it to v.marks.
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

// checkValue sets v.err if s, the value of the placeholder called name, does not satisfy c.
func (v *Values) checkValue(c check, name, s string) {
	if err := c.verify(s); err != nil && v.err == nil {
		v.err = fmt.Errorf("%s is %w", name, err)
	}
}

// flatten returns the records as one list if {N} stands for the Nth record, that is if there
// are several records with one column each. Otherwise it returns nil.
func (v *Values) flatten() []string {
	several := func(rec []string) bool { return len(rec) != 1 }
	if len(v.Records) < 2 || slices.ContainsFunc(v.Records, several) {
		return nil
	}
	return slices.Concat(v.Records...)
}

// perRecord reports whether p has a value for each record of v.
func (p *piece) perRecord(v *Values) bool {
	return p.kind == record || p.kind == column && v.flat == nil || p.kind == field && p.n > 0 || p.kind == made && p.ofEach()
}

// isRequired reports whether p stands for a column that a record must have.
func (p *piece) isRequired() bool {
	return !p.isOptional && (p.kind == column || p.kind == field && p.n > 0)
}

// Check returns an error if any record of a task lacks a column that the placeholders need.
// If {N} stands for the Nth record, it returns an error if there are too few records.
func (h Placeholders) Check(records [][]string) error {
	nth := (&Values{Records: records}).flatten()
	for i := range h {
		p := &h[i]
		lacks, of := "the record has no column", records
		if p.kind == column && nth != nil {
			lacks, of = "there is no record", [][]string{nth}
		}
		for _, list := range of {
			if p.isRequired() && max(p.n, -p.n) > len(list) {
				end := len(p.text) - len(suffixes[p.form]) - 1
				return fmt.Errorf("%s for %s, only %d: if it may be missing, write %s?%s", lacks, p.text, len(list), p.text[:end], p.text[end:])
			}
		}
	}
	return nil
}

// value returns the value of p in recs. If p has a value for each record, they are separated by
// spaces.
func (p *piece) value(v *Values, recs [][]string) string {
	switch {
	case len(recs) == 0:
		return p.valueInRecord(v, nil)
	case len(recs) == 1 || !p.perRecord(v):
		return p.valueInRecord(v, recs[0])
	}
	return join(recs, " ", func(rec []string) string { return p.valueInRecord(v, rec) })
}

// valueInRecord returns the value of p for one record of v. It allocates only to join columns and
// to format a number.
func (p *piece) valueInRecord(v *Values, rec []string) string {
	switch p.kind {
	case record:
		return join(rec, " ", p.form.cut)
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
			return p.form.cut(s)
		}
		return p.text
	}
	if p.kind == column && v.flat != nil {
		rec = v.flat
	}
	i := p.n - 1
	if p.n < 0 {
		i = len(rec) + p.n
	}
	if i < 0 || i >= len(rec) {
		return ""
	}
	return p.form.cut(rec[i])
}

// join returns the texts of the elements of list, separated by sep.
func join[T any](list []T, sep string, text func(T) string) string {
	if len(list) == 1 {
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
