// Package input turns what a run is given (lines, NUL-separated items, columns,
// CSV rows, JSON objects and products of values) into records, and records into
// tasks.
//
// It streams. A record is returned as soon as its separator has been read, with
// no wait for the next one or for a full buffer, and no buffer grows with the
// input; only the inner groups of a product are held in memory. Nothing here is
// safe for concurrent use: one goroutine reads.
package input

import (
	"errors"
	"fmt"
	"io"
	"regexp"
)

// Kind is what a record of the input is.
type Kind uint8

// The kinds of records.
const (
	Lines Kind = iota // text up to a delimiter, perhaps cut into columns
	CSV               // a row of RFC 4180
	JSON              // an object on a line
)

// Format says how bytes become records and records become columns. The zero
// Format is lines of one column.
type Format struct {
	Kind      Kind
	Delimiter string         // what ends a record of Lines and JSON; empty is "\n"
	Colsep    *regexp.Regexp // what separates the columns of Lines; nil is one column a record
	Header    bool           // the first record of each group names its columns
}

// Group is one source of a product: values, or the records of a file where
// Values is nil.
type Group struct {
	Values []string
	File   string // "-" is standard input
	Linked bool   // goes in step with the group before it; the shortest ends them all
}

// Config says what a Reader reads. Its fields are not changed by this package.
type Config struct {
	Stdin     io.Reader // what "-" reads, and a Config without Files and Groups
	Files     []string  // read one after another as one source, which goes before Groups
	Groups    []Group   // several sources give their product, the last varying fastest
	Format    Format
	EOF       *string // a source ends before the record with this text; nil is never
	SkipEmpty bool    // leave out records without a byte
	Comments  bool    // leave out blank lines and those that begin with #
	MaxRecord int     // bytes; a longer record gets an Err. 0 is 16 MiB
}

const defaultMaxRecord = 16 << 20

// Validate says what is wrong with the configuration, or nil.
func (c Config) Validate() error {
	f := c.Format
	switch {
	case c.MaxRecord < 0:
		return fmt.Errorf("the longest record is %d bytes: it must be positive", c.MaxRecord)
	case f.Kind > JSON:
		return fmt.Errorf("unknown kind of input %d", f.Kind)
	case f.Colsep != nil && f.Kind != Lines:
		return errors.New("a column separator goes with lines alone")
	case f.Kind == JSON && f.Header:
		return errors.New("JSON objects name their fields: they have no header")
	case f.Kind == JSON && c.sources() > 1:
		return errors.New("JSON objects come from one source: they have no product")
	case len(c.Files) == 0 && len(c.Groups) > 0 && c.Groups[0].Linked:
		return errors.New("nothing stands before the first :::+ or ::::+ to be linked to")
	}
	for _, g := range c.Groups {
		if g.Values != nil && g.File != "" {
			return fmt.Errorf("a group has values and the file %s", g.File)
		}
	}
	return nil
}

func (c Config) sources() int {
	if len(c.Files) > 0 {
		return 1 + len(c.Groups)
	}
	return len(c.Groups)
}
