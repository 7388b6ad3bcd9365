package expand

import "strings"

// plainPieces splits a command line into words if it needs no shell: plain words separated by
// blanks, and the first word is a program. If in doubt, it returns false.
func plainPieces(pieces []piece) (words [][]piece, ok bool) {
	if !plainText(textOf(pieces, "")) {
		return nil, false
	}
	list, ok := splitPlain(textOf(pieces, hole))
	holes := placeholdersOf(pieces)
	for _, w := range list {
		words = append(words, fillHoles(w, &holes))
	}
	return words, ok
}

// fillHoles returns the pieces of text, with the next placeholder of holes for each hole. It removes
// these placeholders from holes.
func fillHoles(text string, holes *Placeholders) []piece {
	var pieces []piece
	for i, s := range strings.Split(text, hole) {
		if i > 0 {
			pieces = append(pieces, (*holes)[0])
			*holes = (*holes)[1:]
		}
		if s != "" {
			pieces = append(pieces, piece{text: s})
		}
	}
	return pieces
}

// splitPlain splits a plain text into words. ok is false if the first word may not be a program.
func splitPlain(s string) (words []string, ok bool) {
	words = strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' })
	return words, len(words) > 0 && !strings.Contains(words[0], "=") && !shellWords.has(words[0])
}

// OnlyInShell reports whether only a shell can run a command that begins with word, for example cd.
func OnlyInShell(word string) bool { return shellWords.has(word) }

// plainText reports whether s consists only of blanks and plain bytes.
func plainText(s string) bool { return !strings.ContainsAny(s, unplain) }

// unplain are the bytes that are special to some shell, in some position.
const unplain = "\x00\x01\x02\x03\x04\x05\x06\a\b\n\v\f\r\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f" +
	"!\"#$&'()*;<>?[\\]^`{|}~\x7f"

// shellWords are words that, at the start of a command, have a meaning in the shell that no program of that
// name can provide: the reserved words of POSIX, its special built-ins, and other built-ins that a program
// cannot replace. Built-ins of bash alone are listed so that checkDialect refuses them. Not listed are
// echo, printf, test, kill, true, false and pwd, which are programs on every system; time is listed, as it
// is not.
const shellWords list = `case do done elif else esac fi for if in then until while time
	. : break continue eval exec exit export readonly return set shift times trap unset
	alias bg cd command fg getopts hash jobs read type ulimit umask unalias wait
	declare function let local mapfile popd pushd readarray select shopt source typeset`
