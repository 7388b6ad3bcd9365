package input

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
)

// ParseColsep compiles a column separator: a regular expression as package
// regexp has it. One that matches the empty string would cut between any two
// bytes, which nobody means: it is an error, too. Errors say what to write, or
// what is wrong.
func ParseColsep(s string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(s)
	if err != nil {
		if bad, ok := errors.AsType[*syntax.Error](err); ok {
			err = errors.New(bad.Code.String()) // without the text, which need not be one line
		}
		return nil, err
	}
	if re.MatchString("") {
		return nil, errors.New(`write a pattern that matches at least one byte, such as , or \| or ' +'`)
	}
	return re, nil
}

// splitter cuts the text of a record into columns.
type splitter struct {
	re      *regexp.Regexp // nil: one column
	literal string         // what re stands for where it is plain text, which needs no regexp engine
	csv     bool
	scratch []string
}

func newSplitter(f Format) splitter {
	sp := splitter{re: f.Colsep, csv: f.Kind == CSV}
	if sp.re != nil {
		if lit, whole := sp.re.LiteralPrefix(); whole {
			sp.literal = lit
		}
	}
	return sp
}

// columns cuts text, with at least one column as the result. The columns are in
// the slab.
func (sp *splitter) columns(text string, sl *slab) ([]string, error) {
	switch {
	case sp.csv:
		var err error
		sp.scratch, err = fields(sp.scratch[:0], text)
		if err != nil {
			return nil, err
		}
		cols := sl.columns(len(sp.scratch))
		copy(cols, sp.scratch)
		return cols, nil
	case sp.literal != "":
		cols := sl.columns(strings.Count(text, sp.literal) + 1)
		for i := range cols {
			cols[i], text, _ = strings.Cut(text, sp.literal)
		}
		return cols, nil
	case sp.re != nil:
		return sp.re.Split(text, -1), nil
	}
	cols := sl.columns(1)
	cols[0] = text
	return cols, nil
}

const (
	slabText    = 16 << 10
	slabColumns = 256
)

// slab gives out strings and slices of them from larger pieces, so that a short
// record costs no allocation of its own. A piece lives as long as any part of it
// does, so pieces are small.
type slab struct {
	text strings.Builder
	cols []string
}

// string is a copy of b.
func (sl *slab) string(b []byte) string {
	if len(b) > slabText/8 {
		return string(b)
	}
	if sl.text.Cap()-sl.text.Len() < len(b) {
		sl.text.Reset()
		sl.text.Grow(slabText)
	}
	from := sl.text.Len()
	sl.text.Write(b)
	return sl.text.String()[from:]
}

// columns is a slice of n empty strings.
func (sl *slab) columns(n int) []string {
	if cap(sl.cols)-len(sl.cols) < n {
		sl.cols = make([]string, 0, max(n, slabColumns))
	}
	from := len(sl.cols)
	sl.cols = sl.cols[:from+n]
	return sl.cols[from : from+n : from+n]
}
