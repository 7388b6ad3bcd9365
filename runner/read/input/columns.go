package input

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// splitter splits the text of a record into columns.
type splitter struct {
	re      *regexp.Regexp // nil means one column
	literal string         // the text that re matches if it is a fixed text, which is faster to split at
	csv     bool
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

// columns splits text into one or more columns.
func (sp *splitter) columns(text string) ([]string, error) {
	switch {
	case sp.csv:
		return splitRow(text)
	case sp.literal != "":
		return strings.Split(text, sp.literal), nil
	case sp.re != nil:
		return sp.re.Split(text, -1), nil
	}
	return []string{text}, nil
}

// ParseColsep compiles a column separator, a regular expression in the syntax of package regexp.
// A separator that matches the empty string is an error, as it would split between any two
// bytes. Errors say what is wrong or what to write.
func ParseColsep(s string) (*regexp.Regexp, error) {
	re, err := ParseRegexp(s)
	if err == nil && re.MatchString("") {
		err = errors.New(`write a pattern that matches at least one byte, such as , or \| or ' +'`)
	}
	return re, err
}

// ParseRegexp compiles a regular expression that a user has typed. Errors leave it out, because it may have
// several lines.
func ParseRegexp(s string) (*regexp.Regexp, error) {
	re, err := regexp.Compile(s)
	if bad, ok := errors.AsType[*syntax.Error](err); ok {
		err = errors.New(bad.Code.String() + `: write \ before characters that mean themselves, such as \[ or \|`)
	}
	return re, err
}

// ParseDelimiter interprets the escapes in a delimiter that a user has typed: \n \t \r \a \b \f \v
// \\, octal numbers of up to three digits such as \0, and \xHH. All other text, and a backslash at
// the end, stands for itself. It returns an error that says what to write if the delimiter is empty
// or has an unknown escape.
func ParseDelimiter(s string) (string, error) {
	wrong := s == ""
	escapes := regexp.MustCompile(`(?s)\\(?:[0-7]{1,3}|x[[:xdigit:]]{1,2}|.)`)
	text := escapes.ReplaceAllStringFunc(s, func(escape string) string {
		const letters, meant = `\abfnrtv`, "\\\a\b\f\n\r\t\v"
		if i := strings.IndexByte(letters, escape[1]); i >= 0 {
			return meant[i : i+1]
		}
		c, err := strconv.ParseUint("0"+escape[1:], 0, 8) // of 0x1f or 012
		wrong = wrong || err != nil
		return string([]byte{byte(c)})
	})
	if wrong {
		return "", errors.New(`write one or more bytes; \n, \t, \0, \\ and \xHH are known`)
	}
	return text, nil
}
