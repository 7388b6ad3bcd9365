// Package input turns the input of a run (lines, NUL-separated items, columns,
// CSV rows, JSON objects and products of values) into records, and records into
// tasks.
//
// It streams: a record is returned as soon as its separator has been read, and no
// buffer grows with the input. Only the inner groups of a product are held in
// memory. Nothing here is safe for concurrent use.
package input

import (
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
)

// Kind is the kind of records in the input.
type Kind uint8

// The kinds of records.
const (
	Lines Kind = iota // text up to a delimiter, perhaps split into columns
	CSV               // a row as in RFC 4180
	JSON              // an object on a line
)

// Format says how bytes become records and records become columns. The zero
// Format is lines of one column.
type Format struct {
	Kind      Kind
	Delimiter string         // ends a record of Lines and JSON; "" means "\n"
	Colsep    *regexp.Regexp // separates the columns of Lines; nil means one column
	Header    bool           // the first record of each source names its columns; not with JSON
}

// Group is one source of a product: the given values or, if Values is nil, the
// records of a file.
type Group struct {
	Values []string
	File   string // "-" is standard input
	Linked bool   // not the first: advances together with the group before it; the shortest ends them all
}

// Config says what a Reader reads. This package does not change its fields.
type Config struct {
	Stdin     io.Reader // read for "-", and if there are neither Files nor Groups
	Files     []string  // one source, read one after another; it precedes Groups
	Groups    []Group   // several sources form a product, the last varying fastest; JSON has one
	Format    Format
	EOF       *string // a source ends before the record with this text, unless nil
	SkipEmpty bool    // leave out empty records
	Comments  bool    // leave out blank records and those that begin with #
	MaxRecord int     // in bytes; a longer record gets an Err; 0 means 16 MiB
}

const defaultMaxRecord = 16 << 20

// Validate returns an error if standard input is more than one source.
func (c Config) Validate() error {
	read := false // standard input
	for _, s := range c.sources() {
		is := slices.Contains(s.files, "-")
		if is && read {
			return errors.New("standard input cannot be more than one source")
		}
		read = read || is
	}
	return nil
}

// source is a Group, or files that are read one after another.
type source struct {
	Group
	files []string
}

// sources returns the sources in their order.
func (c Config) sources() (list []source) {
	switch {
	case len(c.Files) > 0:
		list = []source{{files: c.Files}}
	case len(c.Groups) == 0:
		list = []source{{files: []string{"-"}}}
	}
	for _, g := range c.Groups {
		s := source{Group: g}
		if g.File != "" {
			s.files = []string{g.File}
		}
		list = append(list, s)
	}
	return list
}

// regular reports whether all files of the input are regular ones. To read another
// would take from the run.
func (c Config) regular() bool {
	for _, s := range c.sources() {
		for _, path := range s.files {
			if st, err := os.Stat(path); path != "-" && (err != nil || !st.Mode().IsRegular()) {
				return false
			}
		}
	}
	return true
}
