package crewtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Examples checks each example of a file in a test of its own: a line of JSON with fields of
// T. Lines that begin with # are comments.
func Examples[T any](t *testing.T, path string, check func(*testing.T, T)) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		t.Run(fmt.Sprintf("%s:%d", filepath.Base(path), i+1), func(t *testing.T) {
			var example T
			dec := json.NewDecoder(strings.NewReader(line))
			dec.DisallowUnknownFields()
			if err := dec.Decode(&example); err != nil {
				t.Fatal(err)
			}
			check(t, example)
		})
	}
}
