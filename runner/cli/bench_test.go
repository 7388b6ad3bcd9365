package cli

import (
	"io"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	args := []string{"crew", "-j2", "true"}
	env := func(string) string { return "" }
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := parse(args, env, io.Discard, io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}
