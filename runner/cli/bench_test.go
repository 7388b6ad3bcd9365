package cli

import (
	"strings"
	"testing"
)

func BenchmarkParse(b *testing.B) {
	for _, line := range []string{"crew -j2 true", "crew -kj8 --retries 2 --timeout 30 --tag true ::: a b", "crew ctl log 3 --json"} {
		args := strings.Fields(line)
		b.Run(line, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(args, func(string) string { return "" }); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
