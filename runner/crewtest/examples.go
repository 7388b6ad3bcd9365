package crewtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Rows decodes the rows of a table, one line of JSON each, and returns them with their line numbers. It
// skips empty lines and comments, which begin with #.
func Rows[T any](path string) (rows []T, lines []int) {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		var row T
		dec := json.NewDecoder(strings.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&row); err != nil {
			panic(fmt.Sprintf("%s:%d: %v", path, i+1, err))
		}
		rows, lines = append(rows, row), append(lines, i+1)
	}
	return rows, lines
}

// Stories runs play for each paragraph of a file, in a subtest that is named by its first line. play gets
// the other lines, without blanks around them.
func Stories(t *testing.T, path string, play func(t *testing.T, story []string)) {
	t.Helper()
	for story := range strings.SplitSeq(strings.TrimSpace(ReadFile(t, path)), "\n\n") {
		lines := strings.Split(story, "\n")
		for i := range lines {
			lines[i] = strings.TrimSpace(lines[i])
		}
		t.Run(lines[0], func(t *testing.T) { play(t, lines[1:]) })
	}
}

// Examples runs check for each row of a table, in a subtest of its own.
func Examples[T any](t *testing.T, path string, check func(*testing.T, T)) {
	t.Helper()
	rows, lines := Rows[T](path)
	for i, row := range rows {
		t.Run(fmt.Sprintf("%s:%d", filepath.Base(path), lines[i]), func(t *testing.T) { check(t, row) })
	}
}
