package expand

import (
	"slices"
	"strconv"
	"strings"
)

// kind says what a piece of a template stands for.
type kind uint8

const (
	literal kind = iota
	record       // {}
	column       // {N}
	field        // {name}
	seq          // {#}
	worker       // {%}
)

// piece is a stretch of text or one placeholder.
type piece struct {
	text string // as written
	kind kind
	form form
	n    int    // column: its number, negative from the end; field: its column or 0
	name string // field
}

// ofRecord says whether p takes anything from the record.
func (p *piece) ofRecord() bool { return p.kind == record || p.kind == column || p.kind == field }

// number says whether p stands for a number that crew makes.
func (p *piece) number() bool { return p.kind == seq || p.kind == worker }

// scan cuts s into text and placeholders. What is no placeholder is text.
func scan(s string, cfg *Config) []piece {
	var out []piece
	rep := cfg.Replace
	if rep == "" {
		rep = "{}"
	}
	from := 0
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

// brace is the placeholder that s, which begins with a brace, begins with; a
// literal where there is none.
func brace(s string, cfg *Config) piece {
	end := strings.IndexByte(s, '}')
	if end < 2 {
		return piece{} // {} itself is Config.Replace
	}
	p, in := piece{text: s[:end+1]}, s[1:end]
	switch in {
	case "#":
		p.kind = seq
		return p
	case "%":
		p.kind = worker
		return p
	}
	if p.subject(in, cfg) {
		return p
	}
	switch {
	case strings.HasSuffix(in, "//"):
		p.form, in = dir, in[:len(in)-2]
	case strings.HasSuffix(in, "/."):
		p.form, in = basedStem, in[:len(in)-2]
	case strings.HasSuffix(in, "/"):
		p.form, in = base, in[:len(in)-1]
	case strings.HasSuffix(in, "."):
		p.form, in = stem, in[:len(in)-1]
	default:
		return piece{}
	}
	if in == "" {
		p.kind = record
		return p
	}
	if !p.subject(in, cfg) {
		return piece{}
	}
	return p
}

// subject makes p the column or field that is called s, and says whether there
// can be one. A header's name goes before a number.
func (p *piece) subject(s string, cfg *Config) bool {
	if i := slices.Index(cfg.Names, s); i >= 0 {
		p.kind, p.n, p.name = field, i+1, s
		return true
	}
	if digits := strings.TrimPrefix(s, "-"); digits != "" && digits[0] >= '1' && digits[0] <= '9' && len(digits) < 10 {
		if n, err := strconv.Atoi(s); err == nil {
			p.kind, p.n = column, n
			return true
		}
	}
	if cfg.Fields && fieldName(s) {
		p.kind, p.name = field, s
		return true
	}
	return false
}

// fieldName says whether s may name a field of a record: a letter, an
// underscore or a byte above ASCII, then also digits, hyphens and single dots.
// Brace text of a shell, such as {a,b} and {a..z}, is none.
func fieldName(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c >= 0x80:
		case i > 0 && (c >= '0' && c <= '9' || c == '-'):
		case i > 0 && c == '.' && s[i-1] != '.' && i < len(s)-1:
		default:
			return false
		}
	}
	return s != ""
}

// value is what p stands for in one record. It allocates only where several
// columns are joined.
func (p *piece) value(v *Values, rec []string) string {
	switch p.kind {
	case record:
		return p.joined(rec)
	case column:
		i := p.n - 1
		if p.n < 0 {
			i = len(rec) + p.n
		}
		if i < 0 || i >= len(rec) {
			return ""
		}
		return p.form.of(rec[i])
	case field:
		if p.n > 0 {
			if p.n > len(rec) {
				return ""
			}
			return p.form.of(rec[p.n-1])
		}
		if s, ok := v.Fields[p.name]; ok {
			return p.form.of(s)
		}
	case seq:
		return strconv.FormatUint(v.Seq, 10)
	case worker:
		if v.Worker > 0 {
			return strconv.Itoa(v.Worker)
		}
	}
	return p.text
}

// joined is the record's columns, each in p's form, with a space between them.
func (p *piece) joined(rec []string) string {
	switch len(rec) {
	case 0:
		return ""
	case 1:
		return p.form.of(rec[0])
	}
	var b strings.Builder
	for i, s := range rec {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(p.form.of(s))
	}
	return b.String()
}

// all is what p stands for in all records together, with a space between them.
func (p *piece) all(v *Values, nth bool) string {
	switch {
	case p.kind == column && nth:
		return p.nth(v)
	case len(v.Records) == 0:
		return p.value(v, nil)
	case len(v.Records) == 1 || !p.ofRecord() || p.kind == field && p.n == 0:
		return p.value(v, v.Records[0])
	}
	var b strings.Builder
	for i, rec := range v.Records {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(p.value(v, rec))
	}
	return b.String()
}

// nth is the record that {N} stands for where several records of one column
// are in one command.
func (p *piece) nth(v *Values) string {
	i := p.n - 1
	if p.n < 0 {
		i = len(v.Records) + p.n
	}
	if i < 0 || i >= len(v.Records) {
		return ""
	}
	return p.form.of(v.Records[i][0])
}

// nth says whether {N} counts records: there are several and each has one
// column.
func (v *Values) nth() bool {
	if len(v.Records) < 2 {
		return false
	}
	for _, rec := range v.Records {
		if len(rec) != 1 {
			return false
		}
	}
	return true
}
