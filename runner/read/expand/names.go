package expand

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"crew/runner/decide/task"
)

// check returns an error if s has a {name} that is not the name of a column although columns
// have names, a placeholder of another tool or, with Refused, a placeholder for the record.
// Braces after a $ or a backslash are text.
func (c *Config) check(s string) error {
	for _, p := range scan(s, c) {
		if c.Insert == Refused && p.ofRecord() {
			return fmt.Errorf("%s stands for a record, and there are blocks: they are standard input, and {#} is their number", p.text)
		}
	}
	for _, in := range c.bracedText(s) {
		if instead := parallelHint(in); instead != "" {
			return fmt.Errorf("there is no placeholder {%s}: %s", in, instead)
		}
		if err := c.checkColumn(in); err != nil {
			return err
		}
	}
	return nil
}

// bracedText returns the text between each pair of braces that are not a placeholder.
func (c *Config) bracedText(s string) (list []string) {
	for _, p := range scan(s, c) {
		for from := 0; !p.isPlaceholder(); from++ {
			n := strings.IndexByte(p.text[from:], '{')
			if n < 0 {
				break
			}
			from += n
			in, _, closed := strings.Cut(p.text[from+1:], "}")
			if closed && (from == 0 || p.text[from-1] != '$' && p.text[from-1] != '\\') {
				list = append(list, in)
			}
		}
	}
	return list
}

// MayName reports whether s holds a {name} that may be meant for a column.
func (c Config) MayName(s string) bool {
	for _, in := range c.bracedText(s) {
		if fieldName(columnName(in)) {
			return true
		}
	}
	return false
}

// columnName returns the name in a placeholder without its braces.
func columnName(in string) string { return strings.TrimSuffix(strings.TrimRight(in, "./"), "?") }

// checkColumn returns an error if in, the text between braces, can only be meant as the name of
// a column.
func (c *Config) checkColumn(in string) error {
	name := columnName(in)
	if slices.Contains(c.First, name) && fieldName(name) {
		return fmt.Errorf("{%s} is text, and %q stands in the first record: add --header if that names the columns, or write { %[1]s }", in, name)
	}
	if len(c.Names) == 0 || !fieldName(strings.ReplaceAll(name, " ", "_")) {
		return nil
	}
	near := task.Nearest(name, c.Names)
	switch {
	case near != "":
		return fmt.Errorf("no column is called %q: did you mean {%s}?", name, near+in[len(name):])
	case strings.Contains(name, " "):
		return nil
	}
	named := slices.DeleteFunc(slices.Clone(c.Names), func(n string) bool { return n == "" })
	return fmt.Errorf("no column is called %q: the columns are %s; { %s } is text",
		name, task.Shorten(strings.Join(named, ", "), 200), in)
}

// parallelHint returns what to write instead of a placeholder of GNU parallel, given
// the text between its braces. It returns "" for any other text.
func parallelHint(in string) string {
	bare := strings.TrimLeft(in, "0123456789")
	number := in[:len(in)-len(bare)]
	switch {
	case bare == "##":
		return "tasks are not counted before they run"
	case bare == "+/":
		return "write {" + number + "//} for the directory"
	}
	// After a percent sign, a suffix of a file name is refused, but not a format of printf or
	// date such as %ld and %hhx.
	if ok, _ := regexp.MatchString(`(?s)^(/?\.\.\.?|\+\.{1,3}|%(\.[a-zA-Z][\w.-]*|_[\w.-]+|[a-gi-km-zA-Z][\w.-]{2,})|= .*|=.+=)$`, bare); !ok {
		return ""
	}
	return "in one quoted command, write f={" + number + `} and change "$f" there, as with "${f%.*}" or sed`
}
