package task

import "strings"

// Quote returns s as one word of a POSIX shell: unchanged where it is made of
// harmless bytes alone, else in single quotes. Every byte but NUL comes through.
func Quote(s string) string {
	if s != "" && strings.IndexFunc(s, needsQuote) < 0 && s[0] != '~' && s[0] != '=' {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func needsQuote(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return false
	}
	return !strings.ContainsRune("%+,-./:=@_", r)
}

// CommandLine is the task's command as a person would type it: the script
// itself where crew made a shell run it, else the words, quoted.
func (t *Task) CommandLine(argv []string) string {
	if t.Shell && len(argv) > 0 {
		return argv[len(argv)-1]
	}
	var b strings.Builder
	for i, w := range argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		if i == 0 && strings.Contains(w, "=") {
			b.WriteString("'" + strings.ReplaceAll(w, "'", `'\''`) + "'")
			continue
		}
		b.WriteString(Quote(w))
	}
	return b.String()
}
