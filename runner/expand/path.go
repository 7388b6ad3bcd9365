package expand

import "strings"

// form says which part of a value a placeholder stands for.
type form uint8

const (
	whole     form = iota // {}
	stem                  // {.}
	base                  // {/}
	dir                   // {//}
	basedStem             // {/.}
)

// of is the part of s that f stands for. It never allocates.
func (f form) of(s string) string {
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

// basename is s as basename(1) prints it: without its directories and without
// slashes at its end. Only slashes give "/", nothing gives nothing.
func basename(s string) string {
	t := strings.TrimRight(s, "/")
	if t == "" {
		return s[:min(len(s), 1)]
	}
	return t[strings.LastIndexByte(t, '/')+1:]
}

// dirname is s as dirname(1) prints it: "." where s has no directory, "/" for
// what stands in the root and for the root itself.
func dirname(s string) string {
	t := strings.TrimRight(s, "/")
	if t == "" {
		if s == "" {
			return "."
		}
		return "/"
	}
	i := strings.LastIndexByte(t, '/')
	if i < 0 {
		return "."
	}
	if t = strings.TrimRight(t[:i], "/"); t == "" {
		return "/"
	}
	return t
}

// cutExt is s without the last extension of its last component, and without
// slashes at its end, as basename and dirname have it; only slashes stay as
// they are. Dots that a component begins with are no extension, so ".bashrc",
// "." and ".." stay whole, where GNU parallel cuts them to "", "" and ".". The
// extension may be empty: "foo." gives "foo", as in GNU parallel.
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
