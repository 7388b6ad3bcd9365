package expand

// plain cuts a command line into words, each its pieces, where it needs no
// shell: plain words with blanks between them, of which the first is a program.
// When in doubt it says no.
func plain(pieces []piece) (words [][]piece, ok bool) {
	var word []piece
	for _, p := range pieces {
		if p.kind != literal {
			word = append(word, p)
			continue
		}
		from := 0
		for i := range len(p.text) {
			c := p.text[i]
			blank := c == ' ' || c == '\t'
			if !blank && !plainByte(c) {
				return nil, false
			}
			if c == '=' && len(words) == 0 {
				return nil, false
			}
			if !blank {
				continue
			}
			if from < i {
				word = append(word, piece{text: p.text[from:i]})
			}
			if len(word) > 0 {
				words, word = append(words, word), nil
			}
			from = i + 1
		}
		if from < len(p.text) {
			word = append(word, piece{text: p.text[from:]})
		}
	}
	if len(word) > 0 {
		words = append(words, word)
	}
	if len(words) == 0 {
		return nil, false
	}
	if w := words[0]; len(w) == 1 && w[0].kind == literal && shellWord(w[0].text) {
		return nil, false
	}
	return words, true
}

// fields is plain for a text without placeholders.
func fields(s string) (words []string, ok bool) {
	n, in := 0, false
	for i := range len(s) {
		c := s[i]
		blank := c == ' ' || c == '\t'
		if !blank && !plainByte(c) || c == '=' && n < 2 {
			return nil, false
		}
		if !blank && !in {
			n++
		}
		in = !blank
	}
	if n == 0 {
		return nil, false
	}
	words = make([]string, 0, n)
	for i := 0; i < len(s); {
		from := i
		for i < len(s) && s[i] != ' ' && s[i] != '\t' {
			i++
		}
		if from < i {
			words = append(words, s[from:i])
		}
		i++
	}
	return words, !shellWord(words[0])
}

// plainByte says whether c means itself to every shell, wherever it stands.
func plainByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c >= 0x80:
		return true
	}
	switch c {
	case '%', '+', ',', '-', '.', '/', ':', '=', '@', '_':
		return true
	}
	return false
}

// shellWord says whether s as the first word of a command means something to
// every shell that no program of that name does: the reserved words and special
// built-ins of POSIX, and its other built-ins that no program can stand in for.
// Those of bash alone are left out, since /bin/sh may not have them. So are
// echo, printf, test, kill, true, false and pwd: they are programs everywhere.
func shellWord(s string) bool {
	switch s {
	case "case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "in", "then", "until", "while",
		"time", // a program, too, which not every machine has
		".", ":", "break", "continue", "eval", "exec", "exit", "export", "readonly", "return", "set", "shift",
		"times", "trap", "unset",
		"alias", "bg", "cd", "command", "fg", "getopts", "hash", "jobs", "read", "type", "ulimit", "umask",
		"unalias", "wait":
		return true
	}
	return false
}
