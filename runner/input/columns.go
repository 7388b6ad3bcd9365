package input

import (
	"regexp"
	"strings"
)

// splitter splits the text of a record into columns.
type splitter struct {
	re      *regexp.Regexp // nil means one column
	literal string         // the text that re matches, if it is plain text and needs no regexp engine
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

// columns splits text into one or more columns, which it stores in sl.
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

// slab allocates strings and slices of strings from larger chunks, so that a short
// record needs no allocation of its own. A chunk lives as long as any part of it,
// so chunks are small.
type slab struct {
	text strings.Builder
	cols []string
}

// string returns a copy of b.
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

// columns returns a slice of n empty strings.
func (sl *slab) columns(n int) []string {
	if cap(sl.cols)-len(sl.cols) < n {
		sl.cols = make([]string, 0, max(n, slabColumns))
	}
	from := len(sl.cols)
	sl.cols = sl.cols[:from+n]
	return sl.cols[from : from+n : from+n]
}
