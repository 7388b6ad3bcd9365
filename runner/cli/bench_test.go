package cli

import "testing"

func BenchmarkParse(b *testing.B) {
	args := []string{"crew", "-j2", "true"}
	env := func(string) string { return "" }
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(args, env); err != nil {
			b.Fatal(err)
		}
	}
}
