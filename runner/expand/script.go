package expand

import (
	"slices"
	"strings"

	"crew/runner/task"
)

// quoting says how a value is written into a script so that the shell reads
// exactly that value.
type quoting uint8

const (
	raw       quoting = iota // as it is: a number that crew made
	single                   // in single quotes, always
	bare                     // in single quotes only where it has to be
	inDouble                 // inside "…": as it is, or outside of the double quotes for a moment
	outDouble                // inside "…": always outside of the double quotes for a moment
	inSingle                 // inside '…'
	columns                  // every column of every record a word of its own
)

// script is a shell script with places for values.
type script struct {
	segs   []seg
	counts bool // {N} is in it
}

// seg is text, or text and then a value.
type seg struct {
	text  string
	value *piece // nil is none
	how   quoting
	group int // segments of one group are repeated for each record; 0 is none
}

// expand is the script for v.
func (s *script) expand(v *Values) string {
	var a [512]byte
	return string(s.append(a[:0], v))
}

// holds says whether a placeholder of the kind is in the script.
func (s *script) holds(k kind) bool {
	return slices.ContainsFunc(s.segs, func(g seg) bool { return g.value != nil && g.value.kind == k })
}

// holdsAny says whether there is a placeholder in the script.
func (s *script) holdsAny() bool {
	return slices.ContainsFunc(s.segs, func(g seg) bool { return g.value != nil })
}

// append appends the script for v to b.
func (s *script) append(b []byte, v *Values) []byte {
	nth := s.counts && v.nth()
	var first []string
	if len(v.Records) > 0 {
		first = v.Records[0]
	}
	for i := 0; i < len(s.segs); {
		if s.segs[i].group == 0 {
			b = s.segs[i].appendAll(b, v, nth)
			i++
			continue
		}
		end, each := i, false
		for ; end < len(s.segs) && s.segs[end].group == s.segs[i].group; end++ {
			p := s.segs[end].value
			each = each || p != nil && p.perRecord(nth)
		}
		b = appendGroup(b, s.segs[i:end], v, first, nth)
		for r := 1; each && r < len(v.Records); r++ {
			b = append(b, ' ')
			b = appendGroup(b, s.segs[i:end], v, v.Records[r], nth)
		}
		i = end
	}
	return b
}

// perRecord says whether p has a value for each record; nth is whether {N}
// counts records.
func (p *piece) perRecord(nth bool) bool {
	return p.kind == record || p.kind == column && !nth || p.kind == field && p.n > 0
}

// appendAll appends g with what its value is for all records together.
func (g *seg) appendAll(b []byte, v *Values, nth bool) []byte {
	b = append(b, g.text...)
	switch {
	case g.value == nil:
		return b
	case g.how == columns:
		for _, rec := range v.Records {
			for _, c := range rec {
				b = append(b, ' ')
				b = bare.append(b, c)
			}
		}
		return b
	}
	from := len(b)
	b = g.how.append(b, g.value.all(v, nth))
	v.mark(g.value, b, from)
	return b
}

// appendGroup appends a group with the values of one record.
func appendGroup(b []byte, segs []seg, v *Values, rec []string, nth bool) []byte {
	for i := range segs {
		g := &segs[i]
		b = append(b, g.text...)
		if g.value != nil {
			from := len(b)
			b = g.how.append(b, g.value.in(v, rec, nth))
			v.mark(g.value, b, from)
		}
	}
	return b
}

// append appends s to b, quoted.
func (q quoting) append(b []byte, s string) []byte {
	switch q {
	case raw:
		return append(b, s...)
	case bare:
		return append(b, task.Quote(s)...)
	case inSingle:
		return appendEscaped(b, s)
	case inDouble, outDouble:
		if q == inDouble && mildInDouble(s) {
			return append(b, s...)
		}
		b = append(b, `"'`...)
		b = appendEscaped(b, s)
		return append(b, `'"`...)
	}
	b = append(b, '\'')
	b = appendEscaped(b, s)
	return append(b, '\'')
}

// appendEscaped appends s as it stands between single quotes.
func appendEscaped(b []byte, s string) []byte {
	for {
		i := strings.IndexByte(s, '\'')
		if i < 0 {
			return append(b, s...)
		}
		b = append(b, s[:i]...)
		b = append(b, `'\''`...)
		s = s[i+1:]
	}
}

// mildInDouble says whether every byte of s means itself between double quotes,
// in every shell and locale.
func mildInDouble(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '$' || c == '`' || c == '\\' || c == '!' {
			return false
		}
	}
	return true
}

// size is an upper bound of the script's length with no record in it.
func (s *script) size() int {
	n := 0
	for i := range s.segs {
		g := &s.segs[i]
		n += len(g.text)
		if g.value != nil && !g.value.ofRecord() {
			n += digits + 4
		}
	}
	return n
}

// recordSize is an upper bound of what one more record adds.
func (s *script) recordSize(rec []string) int {
	quoted := 0
	for _, c := range rec {
		quoted += len(c) + 3*strings.Count(c, "'") + 6 // the quotes, a blank, and "." for a directory
	}
	n := 0
	for i := range s.segs {
		g := &s.segs[i]
		if g.group != 0 {
			n += len(g.text) + 1
		}
		if g.value != nil && g.value.ofRecord() {
			n += quoted + len(g.value.text) + 6
		}
	}
	return n
}
