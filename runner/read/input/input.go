// Package input turns the input of a run (lines, NUL-separated items, columns,
// CSV rows, JSON objects and products of values) into records, and records into
// tasks.
//
// It streams: a record is returned as soon as its separator has been read, and no
// buffer grows with the input. Only the inner groups of a product are kept in
// memory. Nothing here is safe for concurrent use unless its comment says so.
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

// Format says how bytes become records, and how records become columns. The zero Format means
// lines with one column.
type Format struct {
	Kind      Kind
	Delimiter string         // ends a record of Lines and JSON; "" means "\n"
	Colsep    *regexp.Regexp // separates the columns of Lines; nil means one column
	Header    int            // number of records at the start of each source of which the first names its columns; not with JSON
	Skip      int            // number of records to leave out before the header of each file, or the first of the values
}

// Group is one source of a product: the given values or, if Values is nil, the records of a file.
type Group struct {
	Values []string
	File   string // "-" is standard input
	Linked bool   // advances together with the group before it, so it is not the first; the shortest ends them all
}

// Config describes the input of a Reader. This package does not change its fields.
type Config struct {
	Stdin  io.Reader // read for "-", and if there are neither Files nor Groups
	Files  []string  // one source, read one after another; it precedes Groups
	Groups []Group   // several sources form a product, the last varying fastest; JSON has one
	Format
	EOF       string // a source ends before a record with this text; "" means at its end
	SkipEmpty bool   // leave out empty records
	Comments  bool   // leave out blank records and records that begin with #
	MaxRecord int    // in bytes; a longer record gets an Err; 0 means 16 MiB
}

const defaultMaxRecord = 16 << 20

// Validate returns an error if more than one source is standard input.
func (c Config) Validate() error {
	read := false // standard input is a source
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

// sources returns the sources in order.
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

// Paths returns the files of all sources, in order; "-" is standard input.
func (c Config) Paths() (paths []string) {
	for _, s := range c.sources() {
		paths = append(paths, s.files...)
	}
	return paths
}

// regular reports whether all files of the input, except standard input, are regular files. Others
// cannot be read twice: a second reader would take records from the run.
func (c Config) regular() bool {
	for _, path := range c.Paths() {
		if st, err := os.Stat(path); path != "-" && (err != nil || !st.Mode().IsRegular()) {
			return false
		}
	}
	return true
}
