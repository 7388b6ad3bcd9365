package expand

import (
	"path"
	"strings"
)

// form selects the part of a value that a placeholder stands for.
type form uint8

const (
	whole form = iota
	dir
	basedStem
	base
	stem
)

// suffixes are the suffixes that select the forms. They stand after a name or alone.
var suffixes = [...]string{whole: "", dir: "//", basedStem: "/.", base: "/", stem: "."}

// cut returns the part of s that f selects. It does not allocate.
func (f form) cut(s string) string {
	switch f {
	case stem:
		return cutExt(s)
	case base:
		return basename(s)
	case dir:
		return dirname(s)
	case basedStem:
		return cutExt(basename(s))
	}
	return s
}

// basename returns s without its directories and trailing slashes, as basename(1)
// prints it: "/" if s consists of slashes, "" if it is empty.
func basename(s string) string {
	if s == "" {
		return ""
	}
	return path.Base(s)
}

// dirname returns the directory of s as dirname(1) prints it: "." if s names none,
// "/" for the root directory and what is in it.
func dirname(s string) string {
	t := strings.TrimRight(s, "/")
	switch dir := strings.TrimRight(t[:strings.LastIndexByte(t, '/')+1], "/"); {
	case dir != "":
		return dir
	case strings.HasPrefix(s, "/"):
		return "/"
	}
	return "."
}

// cutExt returns s without trailing slashes and without the last extension of its
// last component. It returns s unchanged if s consists of slashes. Leading dots do not
// begin an extension, so ".bashrc", "." and ".." stay whole; GNU parallel
// cuts them to "", "" and ".". As in GNU parallel, "foo." has an empty extension.
func cutExt(s string) string {
	t := strings.TrimRight(s, "/")
	if t == "" {
		return s
	}
	c := t[strings.LastIndexByte(t, '/')+1:]
	i := strings.LastIndexByte(c, '.')
	if i < 0 || strings.Trim(c[:i], ".") == "" {
		return t
	}
	return t[:len(t)-len(c)+i]
}
